#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"

namespace ferry::fabric {

// The questions of one session that wait for an answer, by number. Thread-safe.
class PendingCalls {
 public:
  using Answer = Result<std::vector<std::byte>>;
  // The answer is written before `done`, by one thread, and read after it.
  struct Call {
    std::atomic<bool> done{false};
    Answer answer;
  };

  std::pair<std::uint64_t, std::shared_ptr<Call>> add() {
    auto call = std::make_shared<Call>();
    LockGuard<Mutex> guard(lock_);
    const auto id = next_id_++;
    calls_.emplace(id, call);
    return {id, std::move(call)};
  }
  // The caller waits no more.
  void remove(std::uint64_t id) {
    LockGuard<Mutex> guard(lock_);
    calls_.erase(id);
  }
  // An answer to a call whose caller gave up, or that never was, is dropped.
  void answer(std::uint64_t id, Answer answer) {
    std::shared_ptr<Call> call;
    {
      LockGuard<Mutex> guard(lock_);
      auto found = calls_.find(id);
      if (found == calls_.end()) return;
      call = std::move(found->second);
      calls_.erase(found);
    }
    call->answer = std::move(answer);
    call->done.store(true, std::memory_order_release);
  }

 private:
  Mutex lock_;
  std::uint64_t next_id_ FERRY_GUARDED_BY(lock_) = 1;
  std::unordered_map<std::uint64_t, std::shared_ptr<Call>> calls_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
