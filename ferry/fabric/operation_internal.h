#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "ferry/base/spin.h"
#include "ferry/fabric/types.h"

namespace ferry::fabric {

class Loop;

enum class Verb : std::uint8_t { kWrite, kRead, kFetchAdd, kCompareSwap, kMessage };

// A 64-bit word that a flagged write stores last, after every byte of its payload is visible.
struct Flag {
  RemoteRegion region;
  std::uint64_t offset = 0;
  std::uint64_t value = 0;
  bool notify = true;  // wake a sleeping receiver; false promises that it spins
};

// One operation as a caller asks for it. Lives on the caller's stack during post() only.
//
// The local bytes are the library's until the completion, which fires exactly once, also on failure
// and on close. Channel has checked before post(): bounds and rights against RemoteRegion as given
// (the peer checks again), alignment of flags and atomic words (8), message size.
struct Request {
  Verb verb = Verb::kWrite;
  std::byte* local = nullptr;  // source of writes and messages, destination of reads
  std::size_t length = 0;
  RemoteRegion remote;
  std::uint64_t offset = 0;    // into remote
  const Flag* flag = nullptr;  // kWrite only
  std::uint64_t operand = 0;   // kFetchAdd: addend; kCompareSwap: new value
  std::uint64_t compare = 0;   // kCompareSwap: expected value
  Deadline deadline;  // 0: Options::operation_deadline from now, filled in by OperationPool::make()
  Callback callback;  // may be empty; moved away by post() when it takes the request on
  Pace pace = Pace::kPrompt;
};

enum class OpState : std::uint32_t { kPending = 0, kDone = 1, kFailed = 2 };

// One operation in flight. Made by a lane in post() when the request cannot end at once; two share
// it: the provider until finish(), and the caller's Transfer. Never moves in memory.
class Operation {
 public:
  Verb verb() const { return verb_; }
  Deadline deadline() const { return deadline_; }
  OpState state() const { return state_.load(std::memory_order_acquire); }
  bool cancel_asked() const { return cancel_.load(std::memory_order_relaxed); }

  // The provider's scratch for this operation: whatever it needs to remember, trivially
  // destructible.
  template <class T>
  T& scratch() {
    static_assert(sizeof(T) <= sizeof(scratch_) && std::is_trivially_destructible_v<T> &&
                  alignof(T) <= 16);
    return *reinterpret_cast<T*>(scratch_);
  }

  // Ends the operation, with no lock of the provider held (the callback may post): stores the
  // outcome, calls the callback, drops the provider's share. The provider forgets the pointer.
  // `value` is what an atomic found. Exactly once.
  void finish(Status status, std::uint64_t value = 0);

  // Of operations made of several: the first failure, kept until finish().
  void set_error(const Error& error) { error_ = std::make_shared<const Error>(error); }
  const Error& error() const { return *error_; }

  // Intrusive link for the provider's queues while the provider owns its share.
  Operation* next = nullptr;

 private:
  friend class OperationPool;
  friend class Transfer;

  void release();

  Verb verb_ = Verb::kWrite;
  std::atomic<OpState> state_{OpState::kPending};
  std::atomic<std::uint32_t> shares_{0};
  std::atomic<bool> cancel_{false};
  Deadline deadline_;
  std::uint64_t value_ = 0;
  std::shared_ptr<const Error> error_;  // set before state_ becomes kFailed
  Callback callback_;
  Loop* loop_ = nullptr;
  class OperationPool* pool_ = nullptr;
  alignas(16) std::byte scratch_[192];
};

// Reuses operations: no allocation in the steady state. Thread-safe. One per device.
class OperationPool {
 public:
  // `deadline` is for requests that name none.
  explicit OperationPool(Nanos deadline = std::chrono::seconds(60)) : deadline_(deadline) {}
  ~OperationPool();
  // Takes the callback and the deadline out of `request`. Two shares: the provider's, the caller's.
  Operation* make(Request& request, Loop& loop);
  std::size_t in_use() const { return in_use_.load(std::memory_order_relaxed); }

 private:
  friend class Operation;
  void give_back(Operation* op);
  const Nanos deadline_;
  SpinLock lock_;
  Operation* free_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::deque<Operation> all_ FERRY_GUARDED_BY(lock_);
  std::atomic<std::size_t> in_use_{0};
};

}  // namespace ferry::fabric
