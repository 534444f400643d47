// Data path.
#include "ferry/fabric/transfer.h"

#include <algorithm>

#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/operation_internal.h"

namespace ferry::fabric {

Transfer& Transfer::operator=(Transfer&& other) noexcept {
  if (this != &other) {
    if (op_ != nullptr) drop();
    op_ = std::exchange(other.op_, nullptr);
    value_ = other.value_;
    error_ = std::move(other.error_);
  }
  return *this;
}

bool Transfer::pending() const { return op_->state() == OpState::kPending; }

bool Transfer::poll_pending() {
  if (op_->state() == OpState::kPending) {
    op_->loop_->note_user();
    op_->loop_->try_progress();
  }
  if (op_->state() == OpState::kPending) return false;
  take_outcome();
  return true;
}

Status Transfer::wait_pending(WaitMode mode) {
  if (op_ != nullptr) {
    // The operation's own deadline ends it; the loop's tick sees to that.
    auto* op = op_;
    constexpr std::int64_t kGrace = 60'000'000'000;
    auto grace = Deadline::at_ns(std::min(op->deadline().ns(), INT64_MAX - kGrace) + kGrace);
    op->loop_->wait_until([op] { return op->state() != OpState::kPending; }, grace, mode);
    FERRY_ASSERT(op->state() != OpState::kPending, "a provider left an operation without an end");
    take_outcome();
  }
  if (error_ != nullptr) return tl::unexpected<Error>(*error_);
  return {};
}

void Transfer::cancel() {
  if (op_ != nullptr) op_->cancel_.store(true, std::memory_order_relaxed);
}

void Transfer::take_outcome() {
  value_ = op_->value_;
  error_ = op_->error_;
  std::exchange(op_, nullptr)->release();
}

void Transfer::drop() { std::exchange(op_, nullptr)->release(); }

}  // namespace ferry::fabric
