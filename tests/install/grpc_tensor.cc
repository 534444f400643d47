// A user's program, built against an installed copy of the library: a tensor as gRPC's message.
#include <ferry/interop/grpc_tensor/tensor_service.h>

#include <cstdio>

int main() {
  using ferry::grpc::TensorBuffer;
  grpc::ChannelArguments arguments;
  ferry::grpc::prepare_for_tensors(arguments);
  const auto made = TensorBuffer::allocate(
      {ferry::tensor::ElementType::kF32, *ferry::tensor::Shape::of({100, 100})});
  if (!made) return 1;
  const auto received = TensorBuffer::from_message(made->to_message());
  if (!received || received->bytes().data() != made->bytes().data()) return 1;
  std::puts(received->spec().to_string().c_str());
  return 0;
}
