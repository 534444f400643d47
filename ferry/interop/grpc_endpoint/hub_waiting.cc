// Data path.
#include <algorithm>

#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

// How gRPC's threads wait: docs/design/grpc-endpoint.md.

namespace ferry::interop {

namespace {

constexpr unsigned kMostVain = 4;    // after so many spins for nothing they pause
constexpr unsigned kTryAgain = 16;   // until so many waits have gone without one
constexpr unsigned kLookEvery = 16;  // turns of a spin, at what else gRPC waits for

}  // namespace

// Lock-free as to the endpoints.
bool Hub::news() {
  LockGuard<SpinLock> guard(list_lock_);
  if (!tasks_.empty()) return true;
  return std::any_of(endpoints_->begin(), endpoints_->end(),
                     [](const auto& endpoint) { return endpoint->has_news(); });
}

void Hub::tell_grpc() {
  LockGuard<Mutex> guard(bell_lock_);
  if (bell_ != nullptr) grpc_fd_set_readable(bell_->fd);
}

// True: something has come, here or, then `count` says so, to gRPC's own descriptors.
bool Hub::spin_for_news(const std::function<int()>& look, int& count) {
  const auto& options = PluginOptions::get();
  const bool learns = !options.spins_always;
  if (learns && vain_.load(std::memory_order_relaxed) >= kMostVain &&
      skipped_.fetch_add(1, std::memory_order_relaxed) % kTryAgain != 0)
    return false;
  SpinBudget budget(options.spin, learns);
  for (unsigned turn = 1; budget.spin_again(); ++turn) {
    if (unmapped_.load(std::memory_order_relaxed) != 0) device_->progress();
    const bool found = !pumping_.load(std::memory_order_relaxed) && news();
    if (!found && turn % kLookEvery == 0) count = look();
    if (!found && count == 0) continue;
    vain_.store(0, std::memory_order_relaxed);
    return true;
  }
  vain_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// False: something has come meanwhile.
bool Hub::begin_sleep() {
  LockGuard<Mutex> guard(arm_lock_);
  if (!armed_ && !device_->arm()) return false;
  armed_ = true;
  if (pumping_.load(std::memory_order_seq_cst) || !news()) return true;
  armed_ = false;
  device_->disarm();
  return false;
}

void Hub::end_sleep(const epoll_event* events, int count) {
  {
    LockGuard<Mutex> guard(bell_lock_);
    for (int i = 0; i < count && bell_ != nullptr; ++i) {
      const auto tagged = reinterpret_cast<std::uintptr_t>(events[i].data.ptr);
      if ((tagged & ~std::uintptr_t{1}) == reinterpret_cast<std::uintptr_t>(bell_->fd))
        rung_.store(true);
    }
  }
  LockGuard<Mutex> guard(arm_lock_);
  if (std::exchange(armed_, false)) device_->disarm();
}

bool Hub::somebody_waits_plain() const {
  const auto epoll = static_cast<std::size_t>(grpc_epoll_.load(std::memory_order_seq_cst));
  return epoll >= plain_waiters_.size() ||
         plain_waiters_[epoll].load(std::memory_order_seq_cst) != 0;
}

// Counts itself, then looks whose epoll it is; attach() does the reverse. So a thread that sleeps
// since before gRPC had our descriptor is known.
int Hub::wait_plain(SystemWait wait, int epoll, epoll_event* events, int most, int timeout_ms,
                    bool& ours) {
  auto& waiters = plain_waiters_[static_cast<std::size_t>(epoll)];
  waiters.fetch_add(1, std::memory_order_seq_cst);
  ours = belled_.load(std::memory_order_seq_cst) &&
         grpc_epoll_.load(std::memory_order_seq_cst) == epoll;
  const int count = ours ? 0 : wait(epoll, events, most, timeout_ms);
  waiters.fetch_sub(1, std::memory_order_relaxed);
  return count;
}

int Hub::wait_for_grpc(SystemWait wait, int epoll, epoll_event* events, int most, int timeout_ms) {
  if (epoll < 0 || static_cast<std::size_t>(epoll) >= plain_waiters_.size())
    return wait(epoll, events, most, timeout_ms);
  bool ours = false;
  int count = wait_plain(wait, epoll, events, most, timeout_ms, ours);
  if (!ours) {
    if (grpc_epoll_.load(std::memory_order_relaxed) == epoll) end_sleep(events, count);
    return count;
  }
  hooked_.store(true, std::memory_order_relaxed);
  const auto look = [&] { return wait(epoll, events, most, 0); };
  const bool found = timeout_ms == 0 ? !pumping_.load() && news() : spin_for_news(look, count);
  if (count == 0) {
    const bool sleeps = timeout_ms != 0 && !found && begin_sleep();
    if (!sleeps && (found || timeout_ms != 0)) tell_grpc();
    count = wait(epoll, events, most, sleeps ? timeout_ms : 0);
  }
  end_sleep(events, count);
  return count;
}

}  // namespace ferry::interop
