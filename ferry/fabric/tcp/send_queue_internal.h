// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

// What a request of the peer is answered with.
struct Answer {
  FrameType type = FrameType::kRefusal;
  std::uint64_t id = 0;
  const std::byte* from = nullptr;  // kReadPart: the bytes, if the grant still stands
  std::uint64_t length = 0;
  std::uint64_t sent = 0;
  std::uint64_t key = 0;
  std::uint32_t epoch = 0;
  std::uint64_t value = 0;        // kFound
  std::optional<Error> reason{};  // kRefusal
};

// A chain of operations linked by Operation::next.
struct Chain {
  Operation* head = nullptr;
  Operation* tail = nullptr;
  void push(Operation* op) {
    op->next = nullptr;
    (tail == nullptr ? head : tail->next) = op;
    tail = op;
  }
  Operation* pop() {
    Operation* op = head;
    if (op != nullptr && (head = op->next) == nullptr) tail = nullptr;
    return op;
  }
};

// What a lane has to send and has not begun to: our requests, and answers to the peer's. Decides
// which request is next: messages leave as far as the peer has room for them.
//
// Any thread adds requests, the token's holder adds answers; the one who sends takes both out, with
// the lock held for as many as it takes at once.
//
// Between calls: `held_` has, in the order of their posts, messages and flagged writes; the first
// of them was behind, or is, a message for which the peer had no room. The first may leave by now:
// next_request() looks.
class SendQueue {
 public:
  SendQueue();

  SpinLock lock;

  // False when the lane is closed: the operation stays the caller's. One that is `late` need not be
  // sent before something else is.
  bool add(Operation* op, bool late);
  // False when the peer has more requests open than it may.
  bool add(Answer&& answer);

  // Any thread.
  bool empty() const { return backlog_.load(std::memory_order_relaxed) == 0; }
  // Whether there is something that may not leave late.
  bool has_prompt() const { return backlog_.load(std::memory_order_relaxed) > late(); }
  // How many requests wait for something to leave with.
  std::uint32_t late() const { return late_.load(std::memory_order_relaxed); }
  // The peer has taken so many of our messages.
  void peer_took(std::uint32_t taken) { peer_taken_.store(taken, std::memory_order_release); }

  // The rest is for the one who sends.

  // What was to leave late has waited long enough: it counts as prompt from now on.
  void forget_late() FERRY_REQUIRES(lock) { late_.store(0, std::memory_order_relaxed); }
  // Takes the next request out; null if there is none that may leave.
  Operation* take_request() FERRY_REQUIRES(lock);
  // A message that was taken out does not leave: the peer has room for another one instead.
  void return_credit() { --messages_; }
  // Null if there is none.
  Answer* first_answer() FERRY_REQUIRES(lock) {
    return answers_head_ == answers_tail_ ? nullptr : &answers_[answers_head_ % kWindow];
  }
  void remove_answer() FERRY_REQUIRES(lock) {
    ++answers_head_;
    backlog_.fetch_sub(1, std::memory_order_relaxed);
  }
  // Takes out the requests for which `is_over` is true.
  void take_expired(bool (*is_over)(const Operation&, std::int64_t), std::int64_t now, Chain& out)
      FERRY_REQUIRES(lock);
  // Refuses newcomers and gives out all requests. The answers stay until forget_answers().
  void close(Chain& out) FERRY_REQUIRES(lock);
  void forget_answers() FERRY_REQUIRES(lock);

 private:
  // Whether the peer has room for this operation: only messages need it.
  bool has_credit(const Operation* op) const {
    return op->verb() != Verb::kMessage ||
           messages_ - peer_taken_.load(std::memory_order_acquire) < kMessageCredits;
  }
  // Takes the next request out of the chains, without counting it. On its way it moves to `held_`
  // what must not overtake a message for which the peer has no room.
  Operation* next_request() FERRY_REQUIRES(lock);

  Chain requests_ FERRY_GUARDED_BY(lock);
  // A message for which the peer has no room, and the messages and flagged writes behind it, which
  // it must not be overtaken by. All else goes on.
  Chain held_ FERRY_GUARDED_BY(lock);
  std::uint64_t last_queued_ FERRY_GUARDED_BY(lock) = 0;
  std::unique_ptr<Answer[]> answers_ FERRY_GUARDED_BY(lock);
  std::uint32_t answers_head_ FERRY_GUARDED_BY(lock) = 0;
  std::uint32_t answers_tail_ FERRY_GUARDED_BY(lock) = 0;
  bool closed_ FERRY_GUARDED_BY(lock) = false;
  std::atomic<std::uint32_t> backlog_{0};
  std::atomic<std::uint32_t> late_{0};  // of the backlog; written under the lock
  std::atomic<std::uint32_t> peer_taken_{0};
  std::uint32_t messages_ = 0;  // that were taken out; of the one who sends
};

}  // namespace ferry::fabric::tcp
