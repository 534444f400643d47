#include <sys/socket.h>

#include <cerrno>

#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/hand_over_internal.h"
#include "ferry/interop/grpc_endpoint/wire_internal.h"

namespace ferry::interop {

std::shared_ptr<Wire> Wire::watch(Fd socket) {
  std::shared_ptr<Wire> wire(new Wire);
  wire->own_ = wire;
  wire->socket_ = socket.get();
  wire->descriptor_ = grpc_fd_create(socket.release(), "tensorferry-wire", false);
  wire->rung_.cb = &Wire::rung;
  wire->rung_.cb_arg = wire.get();
  to_grpc(wire.get());
  grpc_fd_notify_on_read(wire->descriptor_, &wire->rung_);
  return wire;
}

void Wire::listen(Down down) {
  State state = State::kUp;
  {
    LockGuard<Mutex> guard(lock_);
    state = state_;
    down_ = state == State::kUp ? std::move(down) : nullptr;
  }
  if (state != State::kUp) down(state == State::kStray);
}

void Wire::shutdown(const absl::Status& why) { grpc_fd_shutdown(descriptor_, why); }

void Wire::close() {
  const auto self = shared_from_this();
  shutdown(absl::CancelledError("the connection is not needed any more"));
  {
    LockGuard<Mutex> guard(lock_);
    closed_ = true;
    down_ = nullptr;
    if (!idle_) return;  // the closure that waits sees to the rest
  }
  give_up();
}

void Wire::give_up() {
  grpc_fd_orphan(descriptor_, nullptr, nullptr, "closed");
  own_.reset();
}

void Wire::rung(void* raw, absl::Status status) {
  from_grpc(raw);
  auto& wire = *static_cast<Wire*>(raw);
  const auto self = wire.own_;
  Down down;
  bool stray = false;
  if (status.ok()) {
    std::byte byte{};
    const auto got = ::recv(wire.socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      grpc_fd_notify_on_read(wire.descriptor_, &wire.rung_);
      return;
    }
    stray = got > 0;
  }
  bool closed = false;
  {
    LockGuard<Mutex> guard(wire.lock_);
    wire.state_ = stray ? State::kStray : State::kDown;
    wire.idle_ = true;
    closed = wire.closed_;
    down = std::exchange(wire.down_, nullptr);
  }
  if (closed) {
    wire.give_up();
  } else if (down) {
    down(stray);
  }
}

}  // namespace ferry::interop
