#include <array>

#include "ferry/base/error.h"
#include "ferry/ps/worker/step_log_internal.h"

namespace ferry::ps {
namespace {

using State = StepState;
using Row = std::array<std::optional<State>, 6>;
constexpr std::optional<State> kNever;

// By state, then by event.
constexpr std::array<Row, 5> kTransitions = {{
    // kPost, kPosted, kPostedEnded, kFail, kRestart, kEnd
    /* kComplete */ {State::kPosting, kNever, kNever, kNever, State::kResending, State::kComplete},
    /* kPosting */
    {kNever, State::kComplete, kNever, State::kIncomplete, State::kResending, kNever},
    /* kIncomplete */ {kNever, kNever, kNever, kNever, State::kResending, kNever},
    /* kResending */
    {kNever, State::kComplete, State::kEndOwed, State::kIncomplete, State::kResending, kNever},
    /* kEndOwed */ {kNever, kNever, kNever, kNever, State::kResending, State::kComplete},
}};

}  // namespace

std::optional<StepState> next_state(StepState state, StepEvent event) {
  return kTransitions.at(static_cast<std::size_t>(state)).at(static_cast<std::size_t>(event));
}

void StepLog::apply(StepEvent event) {
  const auto next = next_state(state_, event);
  FERRY_ASSERT(next.has_value(), "a worker's step goes from state to state by its table");
  state_ = *next;
}

void StepLog::enter(std::uint64_t step, std::uint32_t attempt) {
  entered_ = ended_ = step;
  attempt_ = attempt;
}

void StepLog::record_open_step() {
  if (recorded_ != open()) records_.clear();
  recorded_ = open();
}

std::span<const PushRecord> StepLog::records(std::uint64_t step) const {
  return recorded_ == step ? std::span(records_) : std::span<const PushRecord>();
}

StepAction StepLog::due() const {
  if (is_restart_due()) return StepAction::kRestart;
  if (state_ == StepState::kEndOwed) return StepAction::kPostEnd;
  return state_ == StepState::kIncomplete ? StepAction::kRefuse : StepAction::kNone;
}

void StepLog::begin_post() {
  apply(StepEvent::kPost);
  posting_ = open();
}

void StepLog::posted() {
  const bool ended = posting_ <= ended_ && posting_ > entered_;
  apply(ended ? StepEvent::kPostedEnded : StepEvent::kPosted);
}

void StepLog::restart(std::uint64_t attempt, std::uint64_t step) {
  apply(StepEvent::kRestart);
  attempt_ = static_cast<std::uint32_t>(attempt);
  posting_ = step;
}

void StepLog::end() {
  const bool owed = state_ == StepState::kEndOwed;
  apply(StepEvent::kEnd);
  if (!owed) ++ended_;
}

}  // namespace ferry::ps
