// Data path.
#include <utility>

#include "ferry/fabric/tcp/send_queue_internal.h"
#include "ferry/fabric/tcp/window_internal.h"

namespace ferry::fabric::tcp {

SendQueue::SendQueue() : answers_(new Answer[kWindow]) {}

bool SendQueue::add(Operation* op, bool late) {
  LockGuard<SpinLock> guard(lock);
  if (closed_) return false;
  op->scratch<Job>().queue_number = ++last_queued_;
  requests_.push(op);
  if (late) late_.store(late_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  backlog_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool SendQueue::add(Answer&& answer) {
  LockGuard<SpinLock> guard(lock);
  if (answers_tail_ - answers_head_ == kWindow) return false;
  answers_[answers_tail_++ % kWindow] = std::move(answer);
  backlog_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Operation* SendQueue::next_request() {
  if (Operation* held = held_.head; held != nullptr && has_credit(held)) {
    // What was posted before it and has gone ahead so far goes ahead to the end.
    Operation* other = requests_.head;
    if (other == nullptr || held->scratch<Job>().queue_number < other->scratch<Job>().queue_number)
      return held_.pop();
  }
  while (Operation* op = requests_.pop()) {
    bool ordered = op->verb() == Verb::kMessage || (op->scratch<Job>().header.bits & kFlagged) != 0;
    if (!ordered || (held_.head == nullptr && has_credit(op))) return op;
    held_.push(op);
  }
  return nullptr;
}

Operation* SendQueue::take_request() {
  Operation* op = next_request();
  if (op == nullptr) return nullptr;
  backlog_.fetch_sub(1, std::memory_order_relaxed);
  if (op->verb() == Verb::kMessage) ++messages_;
  return op;
}

void SendQueue::take_expired(bool (*is_over)(const Operation&, std::int64_t), std::int64_t now,
                             Chain& out) {
  forget_late();
  for (Chain* chain : {&requests_, &held_}) {
    Chain kept;
    while (Operation* op = chain->pop()) {
      if (is_over(*op, now)) {
        out.push(op);
        backlog_.fetch_sub(1, std::memory_order_relaxed);
      } else {
        kept.push(op);
      }
    }
    *chain = kept;
  }
}

void SendQueue::close(Chain& out) {
  closed_ = true;
  while (Operation* op = requests_.pop()) out.push(op);
  while (Operation* op = held_.pop()) out.push(op);
}

void SendQueue::forget_answers() {
  for (; answers_head_ != answers_tail_; ++answers_head_)
    answers_[answers_head_ % kWindow].reason.reset();
  backlog_.store(0, std::memory_order_relaxed);
  forget_late();
}

}  // namespace ferry::fabric::tcp
