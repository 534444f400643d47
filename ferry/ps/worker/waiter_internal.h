#pragma once

#include "ferry/base/inline_function.h"
#include "ferry/ps/worker/membership_internal.h"
#include "ferry/ps/worker/step_log_internal.h"

namespace ferry::ps {

enum class WaitOutcome : std::uint8_t {
  kReady,    // what was waited for is so
  kRestart,  // a shard has said that the step is restarted: see StepLog::due()
};

// Waits for what shards and other workers write, and notices meanwhile what changes: it removes
// servers that are gone, and notes that a step is restarted. It posts nothing. Whoever waits passes
// kRestart up to the driver loop of the call (`Pusher::catch_up()`). Used by the thread that calls
// the worker.
class Waiter {
 public:
  Waiter(WorkerContext& context, Membership& members, StepLog& log)
      : context_(context), members_(members), log_(log) {}

  // Waits until `ready` is true, or a shard says that the step is restarted. `what` is for the
  // error when the deadline passes.
  Result<WaitOutcome> wait(InlineFunction<bool()>& ready, Newcomers newcomers, Deadline deadline,
                           const char* what);
  // The same without kRestart, for what a restart itself waits for.
  Status wait_in_restart(InlineFunction<bool()>& ready, Deadline deadline, const char* what);
  // Acts upon a new view, fails if the job has ended, and notes an announced restart.
  Status notice_changes(Newcomers newcomers, Deadline deadline);

 private:
  enum class InRestart : bool { kNo, kYes };
  // Does the work of both; in a restart, kRestart is no outcome.
  Result<WaitOutcome> wait(InlineFunction<bool()>& ready, InRestart in_restart, Newcomers newcomers,
                           Deadline deadline, const char* what);

  WorkerContext& context_;
  Membership& members_;
  StepLog& log_;
};

}  // namespace ferry::ps
