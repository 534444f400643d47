// Data path.
#include "ferry/base/waiting.h"
#include "ferry/interop/grpc_endpoint/epoll_waiter_internal.h"

namespace ferry::interop {

int EpollWaiter::wait(const Call& call) {
  if (call.epoll < 0 || static_cast<std::size_t>(call.epoll) >= unarmed_.size()) return call.wait();
  int count = 0;
  return is_for_grpc(call, count) ? wait_for_grpc(call) : count;
}

bool EpollWaiter::is_for_grpc(const Call& call, int& count) {
  auto& waiters = unarmed_[static_cast<std::size_t>(call.epoll)];
  waiters.fetch_add(1, std::memory_order_seq_cst);
  const bool grpc = doorbell_.attached() && doorbell_.grpc_epoll() == call.epoll;
  if (!grpc) count = call.wait();
  waiters.fetch_sub(1, std::memory_order_relaxed);
  return grpc;
}

int EpollWaiter::wait_for_grpc(const Call& call) {
  hooked_.store(true, std::memory_order_relaxed);
  // The closure has armed for a thread that waits no more.
  if (waker_.armed() && !sleeps_unarmed()) waker_.disarm();
  int count = 0;
  const bool served = call.timeout_ms == 0 ? serve() : spin(call, count);
  if (served && count == 0 &&
      served_.fetch_add(1, std::memory_order_relaxed) % waiting::kGrpcLookEvery != 0)
    return 0;
  if (count == 0) {
    const bool sleeps = !served && call.timeout_ms != 0 && begin_sleep();
    count = sleeps ? sleep(call) : call.look();
  }
  if (count < 0) return count;
  if (doorbell_.take_out(call.events, count)) {
    device_.device().handle_ready();
    progress();  // without asking: endpoints that wait for time to pass are not ready
  } else {
    serve();
  }
  return count;
}

// What comes after the arming rings, what came before is looked for here. With the hook it is the
// thread that sleeps next that arms, and looks; but one may sleep since before there was a bell.
bool EpollWaiter::on_rung() {
  if (!hooked_.load(std::memory_order_relaxed) || sleeps_unarmed()) {
    waker_.take_in_and_arm();
  } else {
    device_.device().handle_ready();
  }
  return progress();
}

// With the hook, a thread that sleeps disarms itself when it wakes.
void EpollWaiter::on_silenced() {
  if (!hooked_.load()) waker_.disarm();
}

bool EpollWaiter::sleeps_unarmed() const {
  const auto epoll = static_cast<std::size_t>(doorbell_.grpc_epoll());
  return epoll >= unarmed_.size() || unarmed_[epoll].load(std::memory_order_seq_cst) != 0;
}

bool EpollWaiter::progress() {
  doorbell_.run_tasks();
  return endpoints_.progress();
}

bool EpollWaiter::serve() {
  if (!has_work()) return false;
  progress();
  return true;
}

bool EpollWaiter::skips_spin() {
  return !PluginOptions::get().spins_always &&
         vain_.load(std::memory_order_relaxed) >= waiting::kVainSpins &&
         skipped_.fetch_add(1, std::memory_order_relaxed) % waiting::kTrySpinEvery != 0;
}

bool EpollWaiter::spin(const Call& call, int& count) {
  if (skips_spin()) return false;
  const auto& options = PluginOptions::get();
  SpinBudget budget(options.spin, !options.spins_always);
  for (unsigned iteration = 1; budget.spin_again(); ++iteration) {
    if (endpoints_.needs_device_progress()) device_.device().progress();
    const bool served = serve();
    if (!served && iteration % waiting::kGrpcLookEvery == 0) count = call.look();
    if (!served && count == 0) continue;
    vain_.store(0, std::memory_order_relaxed);
    return true;
  }
  vain_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool EpollWaiter::begin_sleep() {
  if (!waker_.arm()) return false;
  if (!has_work()) return true;
  waker_.disarm();
  return false;
}

int EpollWaiter::sleep(const Call& call) {
  const auto begin = now_ns();
  const int count = call.wait();
  const int error = errno;
  if (now_ns() - begin < PluginOptions::get().spin.count())  // looking would have found it, too
    vain_.store(0, std::memory_order_relaxed);
  waker_.disarm();
  errno = error;
  return count;
}

}  // namespace ferry::interop
