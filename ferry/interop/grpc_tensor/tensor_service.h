#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "ferry/interop/grpc_tensor/tensor_buffer.h"

// Services that grpc_cpp_plugin has made of a .proto, with TensorBuffer where the .proto says
// TensorMessage. The code it generates speaks of protobuf's classes alone; these two templates do
// what it does, with the types of the program's functions. Other messages of a method stay
// protobuf's. For the asynchronous and the callback API, gRPC has grpc::TemplatedGenericStub, and
// what is generated as WithRawMethod_ and WithRawCallbackMethod_ with TensorBuffer::from_message().

namespace ferry::grpc {

// Settings by which a tensor's bytes come in one piece: large frames, and room for 64 MiB of each
// call beforehand. For both ends. Also lifts the limit of 4 MiB for a message that is received.
void prepare_for_tensors(::grpc::ChannelArguments& arguments);
void prepare_for_tensors(::grpc::ServerBuilder& builder);

// "/package.Service/Method"
template <class Generated>
std::string method_path(const char* method) {
  return std::string("/") + Generated::service_full_name() + "/" + method;
}

// Calls methods of a generated service by their names. In and Out are TensorBuffer, or a class of
// protobuf's. Thread-safe, as generated stubs are.
template <class Generated>
class TensorStub {
 public:
  explicit TensorStub(std::shared_ptr<::grpc::ChannelInterface> channel)
      : channel_(std::move(channel)) {}

  template <class In, class Out>
  ::grpc::Status call(const char* method, ::grpc::ClientContext* context, const In& in, Out* out) {
    const auto path = method_path<Generated>(method);
    return ::grpc::internal::BlockingUnaryCall<In, Out>(
        channel_.get(), Method(path.c_str(), Method::NORMAL_RPC), context, in, out);
  }
  // The client sends a stream.
  template <class In, class Out>
  std::unique_ptr<::grpc::ClientWriter<In>> write(const char* method,
                                                  ::grpc::ClientContext* context, Out* out) {
    const auto path = method_path<Generated>(method);
    return std::unique_ptr<::grpc::ClientWriter<In>>(
        ::grpc::internal::ClientWriterFactory<In>::Create(
            channel_.get(), Method(path.c_str(), Method::CLIENT_STREAMING), context, out));
  }
  // The server does.
  template <class Out, class In>
  std::unique_ptr<::grpc::ClientReader<Out>> read(const char* method,
                                                  ::grpc::ClientContext* context, const In& in) {
    const auto path = method_path<Generated>(method);
    return std::unique_ptr<::grpc::ClientReader<Out>>(
        ::grpc::internal::ClientReaderFactory<Out>::Create(
            channel_.get(), Method(path.c_str(), Method::SERVER_STREAMING), context, in));
  }
  // Both do.
  template <class In, class Out>
  std::unique_ptr<::grpc::ClientReaderWriter<In, Out>> talk(const char* method,
                                                            ::grpc::ClientContext* context) {
    const auto path = method_path<Generated>(method);
    return std::unique_ptr<::grpc::ClientReaderWriter<In, Out>>(
        ::grpc::internal::ClientReaderWriterFactory<In, Out>::Create(
            channel_.get(), Method(path.c_str(), Method::BIDI_STREAMING), context));
  }

 private:
  using Method = ::grpc::internal::RpcMethod;
  std::shared_ptr<::grpc::ChannelInterface> channel_;
};

// Serves methods of a generated service: a class derives from it, and its constructor says by which
// of its functions. Their types say what kind of method it is. Methods that are not named are
// UNIMPLEMENTED. To be registered with a ServerBuilder, as generated services are.
template <class Generated>
class TensorService : public ::grpc::Service {
 protected:
  template <class Self, class In, class Out>
  void serve(const char* method,
             ::grpc::Status (Self::*function)(::grpc::ServerContext*, const In*, Out*)) {
    add(method, Method::NORMAL_RPC,
        new ::grpc::internal::RpcMethodHandler<Self, In, Out>(std::mem_fn(function), self<Self>()));
  }
  template <class Self, class In, class Out>
  void serve(const char* method,
             ::grpc::Status (Self::*function)(::grpc::ServerContext*, ::grpc::ServerReader<In>*,
                                              Out*)) {
    add(method, Method::CLIENT_STREAMING,
        new ::grpc::internal::ClientStreamingHandler<Self, In, Out>(std::mem_fn(function),
                                                                    self<Self>()));
  }
  template <class Self, class In, class Out>
  void serve(const char* method, ::grpc::Status (Self::*function)(::grpc::ServerContext*, const In*,
                                                                  ::grpc::ServerWriter<Out>*)) {
    add(method, Method::SERVER_STREAMING,
        new ::grpc::internal::ServerStreamingHandler<Self, In, Out>(std::mem_fn(function),
                                                                    self<Self>()));
  }
  template <class Self, class In, class Out>
  void serve(const char* method,
             ::grpc::Status (Self::*function)(::grpc::ServerContext*,
                                              ::grpc::ServerReaderWriter<Out, In>*)) {
    add(method, Method::BIDI_STREAMING,
        new ::grpc::internal::BidiStreamingHandler<Self, In, Out>(std::mem_fn(function),
                                                                  self<Self>()));
  }

 private:
  using Method = ::grpc::internal::RpcServiceMethod;
  template <class Self>
  Self* self() {
    return static_cast<Self*>(this);
  }
  void add(const char* method, Method::RpcType type, ::grpc::internal::MethodHandler* handler) {
    paths_.push_back(method_path<Generated>(method));
    AddMethod(new Method(paths_.back().c_str(), type, handler));
  }

  std::list<std::string> paths_;  // which gRPC refers to
};

}  // namespace ferry::grpc
