#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <optional>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"

namespace ferry::ps {

// How a job ended, once. Thread-safe.
class JobEnd {
 public:
  // The first one counts.
  void set(Status status) {
    LockGuard<Mutex> guard(lock_);
    if (!end_) end_ = std::move(status);
    changed_.notify_all();
  }
  bool is_set() {
    LockGuard<Mutex> guard(lock_);
    return end_.has_value();
  }
  // kDeadlineExceeded: it goes on.
  Status wait(Deadline deadline) {
    LockGuard<Mutex> guard(lock_);
    while (!end_) {
      if (deadline.expired()) return fail(Code::kDeadlineExceeded, "the job goes on");
      const auto left = std::min<Nanos>(deadline.left(), std::chrono::seconds(1));
      (void)changed_.wait_for(lock_, left);
    }
    return *end_;
  }

 private:
  Mutex lock_;
  std::condition_variable_any changed_;
  std::optional<Status> end_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::ps
