// Data path.
#include "ferry/fabric/operation_internal.h"

namespace ferry::fabric {

void Operation::finish(Status status, std::uint64_t value) {
  FERRY_ASSERT(state() == OpState::kPending, "an operation ends exactly once");
  value_ = value;
  if (!status) error_ = std::make_shared<const Error>(status.error());
  if (callback_) {
    // Before the state: who sees the operation ended may free what the callback refers to.
    callback_(status);
    callback_.reset();
  }
  state_.store(status ? OpState::kDone : OpState::kFailed, std::memory_order_release);
  release();
}

void Operation::release() {
  if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_->give_back(this);
}

OperationPool::~OperationPool() {
  FERRY_ASSERT(in_use() == 0, "operations end, and their transfers are dropped, before the device");
}

Operation* OperationPool::make(Request& request, Loop& loop) {
  Operation* op = nullptr;
  {
    LockGuard<SpinLock> guard(lock_);
    if (free_ == nullptr) {
      all_.emplace_back();
      op = &all_.back();
    } else {
      op = std::exchange(free_, free_->next);
    }
  }
  in_use_.fetch_add(1, std::memory_order_relaxed);
  op->next = nullptr;
  op->verb_ = request.verb;
  op->state_.store(OpState::kPending, std::memory_order_relaxed);
  op->shares_.store(2, std::memory_order_relaxed);
  op->cancel_.store(false, std::memory_order_relaxed);
  op->deadline_ = request.deadline.ns() != 0 ? request.deadline : Deadline::after(deadline_);
  op->value_ = 0;
  op->callback_ = std::move(request.callback);
  op->loop_ = &loop;
  op->pool_ = this;
  return op;
}

void OperationPool::give_back(Operation* op) {
  op->error_.reset();
  {
    LockGuard<SpinLock> guard(lock_);
    op->next = free_;
    free_ = op;
  }
  in_use_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace ferry::fabric
