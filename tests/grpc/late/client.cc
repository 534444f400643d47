#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

// What the program beside this file loads when it runs: a gRPC client, and with it gRPC.

// True if the server gives back the bytes that it was sent.
extern "C" __attribute__((visibility("default"))) bool call_server(const char* address) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::Slice bytes("some bytes");
  grpc::CompletionQueue queue;
  auto call =
      stub.PrepareUnaryCall(&context, "/ferry.test.Raw/Echo", grpc::ByteBuffer(&bytes, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer said;
  grpc::Status status;
  call->Finish(&said, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status.ok() && said.Length() == bytes.size();
}
