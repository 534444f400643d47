#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "ferry/base/spin.h"
#include "ferry/fabric/verbs/completion_queue_internal.h"

namespace ferry::fabric::verbs {

// Why a lane is to be taken down, and why it is down. Any thread asks for it; the loop does it.
// Thread-safe.
class Teardown {
 public:
  Teardown(CompletionQueue& completions, const std::string& peer_name)
      : completions_(completions), peer_name_(peer_name) {}

  // Has the loop take the lane down for this reason. The first reason counts.
  void request(Error reason);
  bool requested() const { return requested_.load(std::memory_order_acquire); }
  // After requested().
  Error reason();

  // What operations fail with from now on.
  void set_cause(const Error& cause);
  // That; before it was set, that the lane is not up yet.
  Error cause();

 private:
  CompletionQueue& completions_;
  const std::string& peer_name_;
  std::atomic<bool> requested_{false};
  SpinLock lock_;
  std::shared_ptr<const Error> reason_ FERRY_GUARDED_BY(lock_);
  std::shared_ptr<const Error> cause_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric::verbs
