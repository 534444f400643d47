#include <algorithm>
#include <utility>

#include "ferry/ps/server/step_clock_internal.h"

namespace ferry::ps {

StepClock::StepClock(const JobOptions& job) : synchronous_(job.consistency == Consistency::kSync) {
  state_.members.resize(job.workers);
  for (std::uint32_t rank = 0; rank < job.workers; ++rank)
    if (!starts(job, rank)) state_.members[rank].since = Member::kForEver;
}

StepClock::Decision StepClock::judge_gradient(std::uint64_t step, std::uint32_t attempt) const {
  if (!synchronous_) return Decision::kTake;
  if (step > state_.clock + 1) return Decision::kWait;
  if (step <= state_.clock) return Decision::kBreach;
  return attempt == state_.attempt ? Decision::kTake : Decision::kIgnore;
}

StepClock::Decision StepClock::end_step(std::uint32_t rank, std::uint64_t step,
                                        std::uint32_t attempt) {
  auto& ended = state_.members[rank].ended;
  if (synchronous_) {
    if (step > state_.clock + 1) return Decision::kWait;
    if (attempt != state_.attempt) return Decision::kIgnore;
  }
  if (step != ended + 1) return Decision::kBreach;
  ended = step;
  return Decision::kTake;
}

bool StepClock::waits_for_lower(std::uint32_t rank) const {
  for (std::uint32_t lower = 0; lower < rank; ++lower)
    if (waits_for(lower)) return true;
  return false;
}

bool StepClock::is_step_complete() const {
  if (held_) return false;
  bool some = false;
  for (const auto& member : state_.members) {
    if (!counts(member)) continue;
    if (member.ended <= state_.clock) return false;
    some = true;
  }
  return some;
}

std::uint32_t StepClock::count_members() const {
  return static_cast<std::uint32_t>(
      std::count_if(state_.members.begin(), state_.members.end(),
                    [&](const Member& member) { return counts(member); }));
}

bool StepClock::tick() {
  ++state_.clock;
  return state_.later.attempt != 0 && restart(state_.later);
}

bool StepClock::move_to_slowest() {
  auto least = Member::kForEver;
  for (const auto& member : state_.members)
    if (member.since != Member::kForEver && member.through == Member::kForEver)
      least = std::min(least, member.ended);
  if (least == Member::kForEver || least <= state_.clock) return false;
  state_.clock = least;
  return true;
}

bool StepClock::depart(std::uint32_t rank, std::uint64_t through) {
  auto& member = state_.members[rank];
  member.through = through;
  if (through > state_.clock) member.ended = std::max(member.ended, through);
  return through <= state_.clock;
}

std::uint64_t StepClock::last_of(std::uint32_t rank) const {
  const auto& member = state_.members[rank];
  const bool there_was = member.since != Member::kForEver && member.through != Member::kForEver;
  return there_was ? std::max(member.through, member.former) : 0;
}

void StepClock::admit(std::uint32_t rank, std::uint64_t since) {
  state_.members[rank] = {.ended = since, .since = since, .former = last_of(rank)};
}

// A restart of a step that is not open yet waits until it is: entries with the former attempt may
// come until then.
bool StepClock::restart(const Restart& restart) {
  // A scheduler that was started again may say it twice.
  if (restart.attempt <= state_.attempt) return false;
  const bool open = restart.step <= state_.clock + 1;
  const auto attempt = restart.attempt;  // `restart` may be state_.later
  // An older one, said again, does not take the place of a newer one.
  if (attempt >= state_.later.attempt) state_.later = open ? Restart() : restart;
  if (!open) return false;
  state_.attempt = attempt;
  for (auto& member : state_.members) {
    member.ended = std::min(member.ended, state_.clock);
    if (member.since != Member::kForEver) member.ended = std::max(member.ended, member.since);
    // Those who ended the step and then died cannot push it again.
    if (member.through != Member::kForEver) member.through = std::min(member.through, state_.clock);
    member.former = std::min(member.former, state_.clock);
  }
  return true;
}

}  // namespace ferry::ps
