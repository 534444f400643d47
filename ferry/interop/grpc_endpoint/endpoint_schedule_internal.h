// Data path.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "ferry/base/spin.h"

namespace ferry::interop {

// Which endpoints there are, and whose turn it is. The one place where endpoints are asked whether
// they are ready. A template so that its rules can be tested with endpoints that are none of
// gRPC's; the plug-in's are FerryEndpoints.
//
// An Endpoint has, all callable by any thread: ready() and waits_for_time(), which take no lock;
// progress(); maps().
//
// Thread-safe. add() and remove() are called when gRPC makes and destroys an endpoint; the rest by
// threads that wait, at each of their iterations.
template <class Endpoint>
class EndpointSchedule {
 public:
  static constexpr std::size_t kMostAtOnce = 12;  // served before gRPC goes on with them

  void add(const std::shared_ptr<Endpoint>& endpoint) {
    LockGuard<SpinLock> guard(lock_);
    if (!endpoint->maps()) unmapped_.fetch_add(1);
    auto more = std::make_shared<Endpoints>(*endpoints_);
    more->push_back(endpoint);
    endpoints_ = std::move(more);
  }

  void remove(const Endpoint* endpoint) {
    std::shared_ptr<const Endpoints> before;  // destroyed after the lock is let go of
    LockGuard<SpinLock> guard(lock_);
    if (!endpoint->maps()) unmapped_.fetch_sub(1);
    before = endpoints_;
    auto fewer = std::make_shared<Endpoints>(*endpoints_);
    std::erase_if(*fewer, [&](const auto& one) { return one.get() == endpoint; });
    endpoints_ = std::move(fewer);
  }

  // Whether an endpoint has something that gRPC waits for.
  bool any_ready() const {
    LockGuard<SpinLock> guard(lock_);
    return std::any_of(endpoints_->begin(), endpoints_->end(),
                       [](const auto& endpoint) { return endpoint->ready(); });
  }

  // Serves endpoints that are ready, a few at a time, so that gRPC goes on with the first before
  // the last was looked at; and has those look once more that wait for time to pass. True: there
  // may be more that are ready.
  bool progress() {
    std::shared_ptr<const Endpoints> endpoints;
    {
      LockGuard<SpinLock> guard(lock_);
      endpoints = endpoints_;
    }
    std::size_t served = 0;
    const auto count = endpoints->size();
    for (std::size_t looked = 0; looked < count; ++looked) {
      auto& endpoint = *(*endpoints)[next_.fetch_add(1, std::memory_order_relaxed) % count];
      const bool ready = endpoint.ready();
      if (!ready && !endpoint.waits_for_time()) continue;
      endpoint.progress();
      if (ready && ++served == kMostAtOnce) return true;
    }
    return false;
  }

  // Whether the memory of some endpoint's peer is not mapped here: its messages come only by
  // progress on the device.
  bool needs_device_progress() const { return unmapped_.load(std::memory_order_relaxed) != 0; }

 private:
  using Endpoints = std::vector<std::shared_ptr<Endpoint>>;
  mutable SpinLock lock_;
  // Replaced, never changed: whoever has a share may go through it without the lock.
  std::shared_ptr<const Endpoints> endpoints_ FERRY_GUARDED_BY(lock_) =
      std::make_shared<Endpoints>();
  std::atomic<std::size_t> next_{0};  // round-robin: whose turn it is
  std::atomic<int> unmapped_{0};
};

}  // namespace ferry::interop
