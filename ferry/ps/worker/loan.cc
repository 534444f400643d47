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
  const auto turn = FERRY_TRY(core_->turn(deadline));
  if (core_->step() < step_)
    return fail(Code::kFailedPrecondition,
                "a gradient of step {} is lent until the step was applied: end_step() comes first",
                step_);
  auto read = core_->wait_until_read(parameter_, step_, deadline);
  if (read || read.error().code() != Code::kDeadlineExceeded) core_ = nullptr;
  return read;
}

// Without steps in common the loan is of no step.
Result<Loan> WorkerCore::lend_gradient(Parameter parameter, std::span<const std::byte> gradient,
                                       Deadline deadline) {
  FERRY_TRY(push(parameter, gradient, deadline));
  return Loan(this, parameter, sync() ? pushing_ : 0);
}

Status WorkerCore::push_own(Parameter parameter, std::span<const std::byte> gradient,
                            Deadline deadline) {
  FERRY_TRY(push(parameter, gradient, deadline, {.copied = true}));
  return sync() ? Status() : wait_until_read(parameter, 0, deadline);
}

// Servers that read the gradient in place read the copy in place, too, as long as there is memory
// for it.
Result<std::span<std::byte>> WorkerCore::room_for_copy(Parameter parameter,
                                                       std::span<const std::byte> gradient,
                                                       Deadline deadline) {
  auto& to = tensors_[parameter];
  if (memory_of(gradient) != nullptr && to.copy_in_place.bytes().empty()) {
    auto room = allocate(to.info.spec, deadline);
    if (!room && room.error().code() != Code::kResourceExhausted)
      return tl::unexpected<Error>(room.error());
    if (room) to.copy_in_place = *std::move(room);
  }
  if (memory_of(gradient) != nullptr && !to.copy_in_place.bytes().empty())
    return to.copy_in_place.bytes();
  to.copy.resize(to.bytes);
  return std::span(to.copy);
}

bool WorkerCore::is_applied(std::uint64_t step) const {
  return everywhere_in(step, [step](const ShardLink& link) { return link.clock() >= step; });
}

// A ring that was made anew for another server has fewer entries than the last push's number.
Status WorkerCore::wait_until_read(Parameter parameter, std::uint64_t step, Deadline deadline) {
  const auto& pushed = tensors_[parameter];
  const auto read = [this, &pushed, step] {
    if (sync()) return is_applied(step);
    return std::all_of(pushed.parts.begin(), pushed.parts.end(), [](const PartLink& part) {
      const auto& link = *part.link;
      return link.is_removed() || link.landed() >= std::min(part.last_entry, link.posted());
    });
  };
  return wait_for(read, deadline, "servers to read what was pushed");
}

}  // namespace ferry::ps
