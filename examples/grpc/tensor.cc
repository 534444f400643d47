// A tensor through a gRPC service that was generated from a .proto, without a copy on either side.
// The server, then the client:
//
//   example_grpc_tensor serve          prints the port, and serves until its input ends
//   example_grpc_tensor double PORT
//
// On TCP as it is; over Tensorferry when run by `ferry grpc --`.
#include <ferry/interop/grpc_tensor/tensor_service.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstring>
#include <numeric>

#include "scale.grpc.pb.h"

using ferry::grpc::TensorBuffer;

// Where the .proto says TensorMessage, the function may have a TensorBuffer.
class Scale final : public ferry::grpc::TensorService<example::Scale> {
 public:
  Scale() { serve("Double", &Scale::twice); }

 private:
  grpc::Status twice(grpc::ServerContext*, const TensorBuffer* in, TensorBuffer* out) {
    auto made = TensorBuffer::allocate(in->spec());
    if (!made || in->type() != ferry::tensor::ElementType::kF32)
      return {grpc::StatusCode::INVALID_ARGUMENT, "a tensor of f32 is expected"};
    const auto from = in->elements<float>();  // where gRPC has received them
    const auto to = made->fill_elements<float>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = 2 * from[i];
    *out = *std::move(made);
    return grpc::Status::OK;
  }
};

int serve() {
  Scale service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  ferry::grpc::prepare_for_tensors(builder);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  return 0;
}

int call(const char* port) {
  grpc::ChannelArguments arguments;
  ferry::grpc::prepare_for_tensors(arguments);
  ferry::grpc::TensorStub<example::Scale> stub(grpc::CreateCustomChannel(
      std::string("127.0.0.1:") + port, grpc::InsecureChannelCredentials(), arguments));
  constexpr std::int64_t kRows = 1000;
  for (int i = 0; i < 10; ++i) {
    auto asked = *TensorBuffer::allocate(
        {ferry::tensor::ElementType::kF32, *ferry::tensor::Shape::of({kRows, kRows})});
    const auto elements = asked.fill_elements<float>();
    std::iota(elements.begin(), elements.end(), 0.0F);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    TensorBuffer said;
    const auto status = stub.call("Double", &context, asked, &said);
    if (!status.ok()) {
      std::fprintf(stderr, "the call failed: %s\n", status.error_message().c_str());
      return 1;
    }
    std::printf("%s, the last element is %.0f\n", said.spec().to_string().c_str(),
                static_cast<double>(said.elements<float>().back()));
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "serve") == 0) return serve();
  if (argc == 3 && std::strcmp(argv[1], "double") == 0) return call(argv[2]);
  std::fprintf(stderr, "example_grpc_tensor serve | double PORT\n");
  return 2;
}
