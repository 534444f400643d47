#include "tests/grpc/tensors.h"

#include "ferry/interop/grpc_tensor/tensor_service.h"
#include "tests/grpc/tensors.grpc.pb.h"

namespace {

using ferry::grpc::TensorBuffer;
using ferry::grpc::TensorMessage;
using ferry::test::PlainTensors;
using ferry::test::Tensors;

grpc::Status twice(const TensorBuffer& in, TensorBuffer* out) {
  if (in.type() != ferry::tensor::ElementType::kF32)
    return {grpc::StatusCode::FAILED_PRECONDITION, "not f32"};
  auto made = TensorBuffer::allocate(in.spec());
  if (!made) return {grpc::StatusCode::INTERNAL, made.error().message()};
  const auto from = in.elements<float>();
  const auto to = made->fill_elements<float>();
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = 2 * from[i];
  *out = *std::move(made);
  return grpc::Status::OK;
}

class TensorBuffers final : public ferry::grpc::TensorService<Tensors> {
 public:
  TensorBuffers() {
    serve("Double", &TensorBuffers::twice_of);
    serve("Sum", &TensorBuffers::sum);
    serve("Rows", &TensorBuffers::rows);
    serve("Talk", &TensorBuffers::talk);
  }

 private:
  grpc::Status twice_of(grpc::ServerContext* context, const TensorBuffer* in, TensorBuffer* out) {
    context->AddTrailingMetadata(kTensorCopies, std::to_string(TensorBuffer::copies()));
    return twice(*in, out);
  }
  // A scalar.
  grpc::Status sum(grpc::ServerContext*, grpc::ServerReader<TensorBuffer>* in, TensorBuffer* out) {
    *out = *TensorBuffer::allocate({ferry::tensor::ElementType::kF32, {}});
    auto& all = out->fill_elements<float>()[0];
    all = 0;
    for (TensorBuffer one; in->Read(&one);)
      for (const float element : one.elements<float>()) all += element;
    return grpc::Status::OK;
  }
  // Each row of a matrix as a tensor of its own.
  grpc::Status rows(grpc::ServerContext*, const TensorBuffer* in,
                    grpc::ServerWriter<TensorBuffer>* out) {
    for (std::int64_t row = 0; row < in->shape().dim(0); ++row) {
      const auto columns = static_cast<std::size_t>(in->shape().dim(1));
      auto one =
          *TensorBuffer::allocate({in->type(), *ferry::tensor::Shape::of({in->shape().dim(1)})});
      const auto from = in->elements<float>().subspan(static_cast<std::size_t>(row) * columns);
      std::copy_n(from.begin(), columns, one.fill_elements<float>().begin());
      if (!out->Write(one)) break;
    }
    return grpc::Status::OK;
  }
  grpc::Status talk(grpc::ServerContext*,
                    grpc::ServerReaderWriter<TensorBuffer, TensorBuffer>* talk) {
    for (TensorBuffer one; talk->Read(&one);) {
      TensorBuffer said;
      if (auto status = twice(one, &said); !status.ok()) return status;
      if (!talk->Write(said)) break;
    }
    return grpc::Status::OK;
  }
};

void twice(const TensorMessage& in, TensorMessage* out) {
  *out = in;
  auto* first = reinterpret_cast<float*>(out->mutable_data()->data());
  for (std::size_t i = 0; i < out->data().size() / sizeof(float); ++i) first[i] *= 2;
}

class Messages final : public PlainTensors::Service {
  grpc::Status Double(grpc::ServerContext*, const TensorMessage* in, TensorMessage* out) override {
    twice(*in, out);
    return grpc::Status::OK;
  }
  grpc::Status Talk(grpc::ServerContext*,
                    grpc::ServerReaderWriter<TensorMessage, TensorMessage>* talk) override {
    for (TensorMessage one; talk->Read(&one);) {
      TensorMessage said;
      twice(one, &said);
      if (!talk->Write(said)) break;
    }
    return grpc::Status::OK;
  }
};

}  // namespace

std::vector<std::unique_ptr<grpc::Service>> tensor_services() {
  std::vector<std::unique_ptr<grpc::Service>> all;
  all.push_back(std::make_unique<TensorBuffers>());
  all.push_back(std::make_unique<Messages>());
  return all;
}
