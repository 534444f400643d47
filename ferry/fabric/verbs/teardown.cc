#include "ferry/fabric/verbs/teardown_internal.h"

namespace ferry::fabric::verbs {

void Teardown::request(Error reason) {
  {
    LockGuard<SpinLock> guard(lock_);
    if (reason_ != nullptr) return;
    reason_ = std::make_shared<const Error>(std::move(reason));
  }
  requested_.store(true, std::memory_order_release);
  completions_.lane_failing();
}

Error Teardown::reason() {
  LockGuard<SpinLock> guard(lock_);
  return *reason_;
}

void Teardown::set_cause(const Error& cause) {
  auto kept = std::make_shared<const Error>(cause);
  LockGuard<SpinLock> guard(lock_);
  cause_.swap(kept);
}

Error Teardown::cause() {
  LockGuard<SpinLock> guard(lock_);
  if (cause_ != nullptr) return *cause_;
  return Error(Code::kUnavailable, fmt::format("the lane to {} is not up yet", peer_name_), 0,
               __FILE__, __LINE__);
}

}  // namespace ferry::fabric::verbs
