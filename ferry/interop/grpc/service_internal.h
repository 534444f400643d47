#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/inline_function.h"
#include "ferry/tensor/tensor.h"

namespace ferry::interop {

// Whatever a completion queue tells: deletes itself when it is through, or belongs to somebody.
class GrpcTag {
 public:
  virtual void proceed(bool ok) = 0;

 protected:
  ~GrpcTag() = default;
};

// Which tensor is asked for.
struct GrpcKey {
  std::uint32_t crossing = 0;
  std::uint64_t step = 0;
  friend auto operator<=>(const GrpcKey&, const GrpcKey&) = default;
};
grpc::ByteBuffer request_for(GrpcKey key);
Result<GrpcKey> key_in(const grpc::ByteBuffer& request);
// The tensor's descriptor, and its memory as it is; `released` is set when gRPC needs it no more,
// which may be long after everything else here is gone.
grpc::ByteBuffer response_with(const tensor::Tensor& tensor,
                               std::shared_ptr<std::atomic<bool>> released);

// Tells whoever waits that something has happened.
class GrpcBell {
 public:
  void ring();
  bool wait_until(InlineFunction<bool()> ready, Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
};

// The sending side: tensors that are there, and those that were asked for before they were.
class GrpcShelf {
 public:
  // `respond` is called once, with the tensor's bytes.
  using Respond = std::function<void(const grpc::ByteBuffer&)>;
  void ask(GrpcKey key, Respond respond);
  void put(GrpcKey key, const tensor::Tensor& tensor, std::shared_ptr<std::atomic<bool>> released);

 private:
  std::mutex mutex_;
  std::map<GrpcKey, grpc::ByteBuffer> there_;
  std::map<GrpcKey, Respond> asked_;
};

// A gRPC server and the thread that serves it and this process's own calls.
class GrpcService {
 public:
  static Result<std::unique_ptr<GrpcService>> start(const std::string& listen, bool ours);
  ~GrpcService();

  const std::string& endpoint() const { return endpoint_; }
  GrpcShelf& shelf() { return shelf_; }
  GrpcBell& bell() { return bell_; }
  grpc::CompletionQueue& queue() { return *queue_; }

 private:
  class Call;
  GrpcService() = default;
  void serve();

  std::string endpoint_;
  GrpcShelf shelf_;
  GrpcBell bell_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

inline constexpr auto kGrpcMethod = "/tensorferry.Rendezvous/Receive";

}  // namespace ferry::interop
