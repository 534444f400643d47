#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/ps/parameter.h"

namespace ferry::ps {

// One push of the open step, kept in case the step is restarted.
struct PushRecord {
  Parameter parameter = 0;
  std::span<const std::byte> gradient{};                 // dense
  std::shared_ptr<const std::vector<std::byte>> rows{};  // a payload for one slot
  std::uint32_t part = 0;                                // rows: of the first copies
  std::uint64_t count = 0;                               // rows: how many
  bool back = false;                                     // the new values are to be sent back
};

enum class StepState : std::uint8_t {
  kComplete,    // all that was pushed is posted; more pushes and END may follow
  kPosting,     // a call is posting entries
  kIncomplete,  // a call failed when it had posted a part: only a restart mends that
  kResending,   // the step was restarted, and what was pushed is being posted again
  kEndOwed,     // an ended step was posted again, and its END is still to be posted
};

enum class StepEvent : std::uint8_t {
  kPost,         // a call begins to post
  kPosted,       // all of it is posted
  kPostedEnded,  // the same, of a restarted step that this worker had ended
  kFail,         // a call failed, or ran out of time, between two entries
  kRestart,      // all shards have forgotten the step, under a new attempt
  kEnd,          // END is posted
};

// What a worker has to do before anything else.
enum class StepAction : std::uint8_t { kNone, kRestart, kPostEnd, kRefuse };

// The state after an event; none: the event cannot come in this state.
std::optional<StepState> next_state(StepState state, StepEvent event);

// What a worker has pushed in the step that is not known to be applied, and how far that step is.
// No I/O, no clock, no thread: the thread that calls the worker tells it what happened, and asks
// due() what is to be done.
//
// Between calls of the worker the state is kComplete, kIncomplete or kEndOwed, or a restart is due.
// The attempt only grows; the entries that count are those of the last attempt.
class StepLog {
 public:
  // The last step that this worker is not part of, and the attempt at the next one.
  void enter(std::uint64_t step, std::uint32_t attempt);

  std::uint64_t ended() const { return ended_; }     // steps of which END is posted
  std::uint64_t open() const { return ended_ + 1; }  // the step that pushes are part of
  std::uint32_t attempt() const { return attempt_; }
  StepState state() const { return state_; }

  // A push or an END of the open step comes.
  void begin() { begun_ = open(); }
  // The last step of which one came; first values of a tensor are sent with it.
  std::uint64_t begun() const { return begun_; }

  // Begins to record the open step, unless that has begun.
  void record_open_step();
  void record(PushRecord push) { records_.push_back(std::move(push)); }
  // What was pushed in the step: nothing if it is not the one that was recorded last.
  std::span<const PushRecord> records(std::uint64_t step) const;

  // A shard has said that the step is restarted under this attempt; all others will.
  void announce(std::uint64_t attempt) { announced_ = std::max(announced_, attempt); }
  std::uint64_t announced() const { return announced_; }
  bool is_restart_due() const { return announced_ > attempt_; }
  StepAction due() const;

  // Entries of the open step are about to be posted; then either posted() or fail() is called,
  // unless a restart is due.
  void begin_post();
  void posted();
  void fail() { apply(StepEvent::kFail); }
  // All shards have forgotten `step` under this attempt. Its records are to be posted again, and
  // then posted() is called.
  void restart(std::uint64_t attempt, std::uint64_t step);
  // The step of the entries that are, or were last, being posted.
  std::uint64_t posting() const { return posting_; }
  // END is posted: of the restarted step if it was owed, else of the open one.
  void end();

 private:
  // Goes to the next state by the table; an event that cannot come in this state is a bug.
  void apply(StepEvent event);

  std::vector<PushRecord> records_;
  std::uint64_t recorded_ = 0;  // the step of these
  std::uint64_t entered_ = 0;   // the last step that this worker is not part of
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t posting_ = 0;
  std::uint64_t announced_ = 0;
  std::uint32_t attempt_ = 0;
  StepState state_ = StepState::kComplete;
};

}  // namespace ferry::ps
