#pragma once

#include <atomic>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/plugin_device_internal.h"

namespace ferry::interop {

// Whether peers have been told to ring, because a thread of gRPC's sleeps ("armed"); and what wakes
// that thread. A thread arms before it sleeps and disarms after it; the closure on the descriptor
// arms for threads that cannot (epoll_waiter_internal.h).
//
// Thread-safe; the device must be open. Between calls the device is armed exactly if armed() says
// so.
class Waker {
 public:
  explicit Waker(PluginDevice& device) : device_(device) {}

  bool armed() const { return armed_.load(std::memory_order_relaxed); }
  // From here on peers ring. The caller then looks once more whether there is work: what was left
  // before this was not rung for. False: something has come, and nothing is armed.
  bool arm();
  void disarm();
  // Takes in what the device has, and arms, however often something comes meanwhile.
  void take_in_and_arm();
  // There is work that no peer rings for: if a thread sleeps, it looks once more.
  void wake();
  // The same for a thread that may not have armed.
  void wake_always() { device_.device().wake_waiters(); }
  // In the child of a fork().
  void disown() { armed_ = false; }

 private:
  PluginDevice& device_;
  Mutex lock_;  // guards the device's arm() and disarm(), and changes of armed_
  std::atomic<bool> armed_{false};
};

}  // namespace ferry::interop
