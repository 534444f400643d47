#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// What a shard knows of a worker's steps.
struct Member {
  static constexpr std::uint64_t kForEver = ~std::uint64_t{0};
  std::uint64_t ended = 0;
  std::uint64_t since = 0;           // the last step before those in which it counts
  std::uint64_t through = kForEver;  // the last step in which it counts
  // The last step in which whoever had this rank before counts. It is ended, and may be open.
  std::uint64_t former = 0;
};

// A step that starts again, with a new attempt: what was pushed to it before does not count.
struct Restart {
  std::uint32_t attempt = 0;  // 0: none
  std::uint64_t step = 0;
};

// All that a StepClock is.
struct ClockState {
  std::uint64_t clock = 0;    // the last step that is applied
  std::uint32_t attempt = 0;  // at the open step, which is the one after the clock
  Restart later;              // of a step after the open one
  std::vector<Member> members;
};

// Which step is open at a shard, whose end it waits for, and what becomes of an entry of a worker.
// Pure logic: no memory, device or time. One thread at a time.
//
// In a synchronous job the open step ends when all members that count have ended it, and then the
// clock ticks. Without steps in common, the clock is the smallest step that all have ended.
class StepClock {
 public:
  // What becomes of an entry, by its step and attempt:
  //   step        attempt      synchronous
  //   applied     any          kBreach (a gradient); the end of a step: by Member::ended
  //   open        the open's   kTake
  //   open        another      kIgnore: it was pushed before the step was restarted, or known to be
  //   after it    any          kWait
  // Without steps in common, gradients are taken whatever their step.
  enum class Decision { kTake, kIgnore, kWait, kBreach };

  explicit StepClock(const JobOptions& job);

  bool is_synchronous() const { return synchronous_; }
  std::uint64_t now() const { return state_.clock; }
  std::uint32_t attempt() const { return state_.attempt; }
  const ClockState& state() const { return state_; }
  void set_state(ClockState state) { state_ = std::move(state); }
  std::uint64_t last_ended(std::uint32_t rank) const { return state_.members[rank].ended; }

  Decision judge_gradient(std::uint64_t step, std::uint32_t attempt) const;
  // A worker has ended that step: notes it, unless it has to wait or does not count.
  Decision end_step(std::uint32_t rank, std::uint64_t step, std::uint32_t attempt);

  // Whether the open step waits for that worker.
  bool waits_for(std::uint32_t rank) const {
    return counts(state_.members[rank]) && state_.members[rank].ended <= state_.clock;
  }
  bool waits_for_lower(std::uint32_t rank) const;
  // Whether all who count have ended the open step, somebody counts, and it is not held.
  bool is_step_complete() const;
  std::uint32_t count_members() const;
  // The open step is applied. True if the next one restarts at once, as was said before.
  bool tick();
  // Without steps in common. True if the clock has moved.
  bool move_to_slowest();

  // No step is complete from now on, until release().
  void hold() { held_ = true; }
  void release() { held_ = false; }
  // The worker is out after that step. True if nothing of it counts in the open step.
  bool depart(std::uint32_t rank, std::uint64_t through);
  // The last step that whoever had this rank has ended, and that is known to count.
  std::uint64_t last_of(std::uint32_t rank) const;
  // The worker is part of all steps after that one.
  void admit(std::uint32_t rank, std::uint64_t since);
  // True if the open step restarts now. One of a later step is kept until that is open. What was
  // said before, or is older than what was, changes nothing.
  bool restart(const Restart& restart);

 private:
  // Whether the worker counts in the open step, or whoever had its rank before does.
  bool counts(const Member& member) const {
    return member.former > state_.clock ||
           (member.since <= state_.clock && member.through > state_.clock);
  }

  const bool synchronous_;
  bool held_ = false;
  ClockState state_;
};

}  // namespace ferry::ps
