#pragma once

#include <functional>
#include <memory>

#include "ferry/base/fd.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/abi_internal.h"

namespace ferry::interop {

// The TCP connection under an endpoint of ours, on which nothing is sent any more: that it lives
// says that the peer lives. Watched by gRPC's threads. Thread-safe; in an ExecCtx.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  static std::shared_ptr<Wire> watch(Fd socket);

  // Called once, on a thread of gRPC's, when the peer has closed the connection or, `stray`, has
  // sent bytes on it. At once if that was so before. Replaces who listened before.
  using Down = std::function<void(bool stray)>;
  void listen(Down down);
  // The peer sees the end.
  void shutdown(const absl::Status& why);
  // The same, and nobody listens any more. To be called once.
  void close();

  int socket() const { return socket_; }
  grpc_fd* descriptor() const { return descriptor_; }

 private:
  Wire() = default;
  // gRPC's closure: the socket is readable, which means that it has ended or brought stray bytes,
  // or its descriptor was shut down.
  static void rung(void* self, absl::Status status);
  // Gives up gRPC's descriptor, and with it the wire's share of itself.
  void give_up();

  int socket_ = -1;
  grpc_fd* descriptor_ = nullptr;
  grpc_closure rung_{};
  std::shared_ptr<Wire> own_;  // until gRPC's descriptor is given up

  enum class State : std::uint8_t { kUp, kDown, kStray };
  Mutex lock_;
  State state_ FERRY_GUARDED_BY(lock_) = State::kUp;
  Down down_ FERRY_GUARDED_BY(lock_);
  bool idle_ FERRY_GUARDED_BY(lock_) = false;  // no closure waits on the descriptor
  bool closed_ FERRY_GUARDED_BY(lock_) = false;
};

}  // namespace ferry::interop
