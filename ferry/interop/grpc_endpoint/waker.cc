// Data path.
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/waker_internal.h"

namespace ferry::interop {

bool Waker::arm() {
  LockGuard<Mutex> guard(lock_);
  if (!armed_ && !device_.device().arm()) return false;
  armed_ = true;
  return true;
}

void Waker::disarm() {
  LockGuard<Mutex> guard(lock_);
  if (armed_.exchange(false)) device_.device().disarm();
}

void Waker::take_in_and_arm() {
  LockGuard<Mutex> guard(lock_);
  auto& device = device_.device();
  if (armed_.exchange(false)) device.disarm();
  device.handle_ready();
  while (!device.arm()) continue;
  armed_ = true;
}

void Waker::wake() {
  if (armed_.load(std::memory_order_seq_cst)) wake_always();
}

}  // namespace ferry::interop
