#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/worker/core_internal.h"

// Whose the memory of a gradient is.

namespace ferry::ps {
namespace {

constexpr std::chrono::seconds kLoanEnds{10};

}  // namespace

Loan& Loan::operator=(Loan&& other) noexcept {
  if (this == &other) return *this;
  Loan ended(std::move(*this));
  core_ = std::exchange(other.core_, nullptr);
  parameter_ = other.parameter_;
  step_ = other.step_;
  return *this;
}

Loan::~Loan() {
  const auto ended = release(Deadline::after(kLoanEnds));
  if (!ended) logger().error("a lent gradient was not given back: {}", ended.error().to_string());
}

Status Loan::release(Deadline deadline) {
  if (core_ == nullptr) return {};
  const auto lock = FERRY_TRY(core_->lock(deadline));
  if (core_->step() < step_)
    return fail(Code::kFailedPrecondition,
                "a gradient of step {} is lent until the step was applied: end_step() comes first",
                step_);
  auto read = core_->pusher().wait_until_read(parameter_, step_, deadline);
  if (read || read.error().code() != Code::kDeadlineExceeded) core_ = nullptr;
  return read;
}

// Without steps in common the loan is of no step.
Result<Loan> WorkerCore::lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                                       Deadline deadline) {
  FERRY_TRY(pusher_.push(parameter, gradient, deadline));
  return Loan(this, parameter, context_.is_sync() ? log_.open() : 0);
}

Status WorkerCore::push_own(Parameter parameter, std::span<const std::byte> gradient,
                            Deadline deadline) {
  FERRY_TRY(pusher_.push(parameter, gradient, deadline, {.copied = true}));
  return context_.is_sync() ? Status() : pusher_.wait_until_read(parameter, 0, deadline);
}

}  // namespace ferry::ps
