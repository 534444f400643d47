// Data path.
#include <algorithm>

#include "ferry/interop/grpc_endpoint/endpoint_internal.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"

// How gRPC's threads wait: docs/design/grpc-endpoint.md.

namespace ferry::interop {

namespace {

constexpr unsigned kMostVain = 4;    // after so many spins for nothing they pause
constexpr unsigned kTryAgain = 16;   // until so many waits have gone without one
constexpr unsigned kLookEvery = 16;  // turns, at what else gRPC waits for

}  // namespace

// Lock-free as to the endpoints.
bool Hub::news() {
  LockGuard<SpinLock> guard(list_lock_);
  if (!tasks_.empty()) return true;
  return std::any_of(endpoints_->begin(), endpoints_->end(),
                     [](const auto& endpoint) { return endpoint->has_news(); });
}

// Completes what waits here; what gRPC is to do next is then in this thread's ExecCtx. Costs no
// system call and no other thread. False: there was nothing.
bool Hub::serve() {
  if (!news()) return false;
  pump();
  return true;
}

// True: something has come, and was served, or, then `count` says so, has come to gRPC's own
// descriptors.
bool Hub::spin_for_news(const std::function<int()>& look, int& count) {
  const auto& options = PluginOptions::get();
  const bool learns = !options.spins_always;
  if (learns && vain_.load(std::memory_order_relaxed) >= kMostVain &&
      skipped_.fetch_add(1, std::memory_order_relaxed) % kTryAgain != 0)
    return false;
  SpinBudget budget(options.spin, learns);
  for (unsigned turn = 1; budget.spin_again(); ++turn) {
    if (unmapped_.load(std::memory_order_relaxed) != 0) device_->progress();
    const bool served = serve();
    if (!served && turn % kLookEvery == 0) count = look();
    if (!served && count == 0) continue;
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
  if (!news()) return true;
  armed_ = false;
  device_->disarm();
  return false;
}

// Who was served here may have left something that a thread has looked for already, and sleeps.
void Hub::nudge() {
  if (armed_.load(std::memory_order_seq_cst)) device_->wake_waiters();
}

// Takes our bell out of the events: true if it was there.
bool Hub::take_bell(epoll_event* events, int& count) {
  LockGuard<Mutex> guard(bell_lock_);
  if (bell_ == nullptr || count <= 0) return false;
  const auto ours = [&](const epoll_event& event) {
    const auto tagged = reinterpret_cast<std::uintptr_t>(event.data.ptr);
    return (tagged & ~std::uintptr_t{1}) == reinterpret_cast<std::uintptr_t>(bell_->fd);
  };
  const auto left = static_cast<int>(std::remove_if(events, events + count, ours) - events);
  return std::exchange(count, left) != left;
}

int Hub::sleep(const std::function<int()>& wait) {
  const auto begin = now_ns();
  const int count = wait();
  const int error = errno;
  if (now_ns() - begin < PluginOptions::get().spin.count())  // looking would have found it, too
    vain_.store(0, std::memory_order_relaxed);
  end_sleep();
  errno = error;
  return count;
}

void Hub::end_sleep() {
  LockGuard<Mutex> guard(arm_lock_);
  if (armed_.exchange(false)) device_->disarm();
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
  if (!ours) return count;
  hooked_.store(true, std::memory_order_relaxed);
  // The closure has armed for somebody who waits no more.
  if (armed_.load(std::memory_order_relaxed) && !somebody_waits_plain()) end_sleep();
  const auto look = [&] { return wait(epoll, events, most, 0); };
  const bool served = timeout_ms == 0 ? serve() : spin_for_news(look, count);
  if (served && count == 0 && served_.fetch_add(1, std::memory_order_relaxed) % kLookEvery != 0)
    return 0;
  if (count == 0) {
    const bool sleeps = !served && timeout_ms != 0 && begin_sleep();
    count = sleeps ? sleep([&] { return wait(epoll, events, most, timeout_ms); }) : look();
  }
  if (count < 0) return count;
  if (take_bell(events, count)) {
    device_->take_in();
    pump();  // also those who wait for the time to pass
  } else {
    serve();
  }
  return count;
}

}  // namespace ferry::interop
