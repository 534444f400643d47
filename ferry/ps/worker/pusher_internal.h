#pragma once

#include "ferry/ps/worker/merger_internal.h"

namespace ferry::ps {

struct PushOptions {
  bool back = false;    // the new values are to be sent back
  bool copied = false;  // kSync: what is read later is a copy
};

// Pushes, ends steps, and waits for them: the calls of a worker that write to shards, and the one
// loop that restarts a step. See "How a worker pushes" in the design note. Used by the thread that
// calls the worker.
//
// Nothing below posts from inside a wait. A wait that finds the step restarted ends the call's work
// with kRestart; the call then runs catch_up(), which posts the log again, and goes on.
class Pusher {
 public:
  Pusher(WorkerContext& context, Membership& members, TensorTable& tensors, MemoryTable& memories,
         StepLog& log)
      : context_(context),
        members_(members),
        tensors_(tensors),
        memories_(memories),
        log_(log),
        waiter_(context, members, log),
        poster_(context, members, tensors, memories, log, waiter_),
        merger_(context, members, tensors, memories, log, waiter_, poster_) {}

  Merger& merger() { return merger_; }

  // The gradient stays where it is until it was read; see wait_until_read().
  Status push(Parameter parameter, std::span<const std::byte> gradient, Deadline deadline,
              const PushOptions& options = {});
  // The payloads are of this tensor, each for one slot.
  Status push_rows(Parameter parameter, std::vector<PushRecord> payloads, Deadline deadline);
  Status end_step(Deadline deadline);
  // First values of a tensor: posts them, and waits until they are taken.
  Status assign(Parameter parameter, std::span<const std::byte> values, Deadline deadline);

  // Waits until all that was pushed, in steps that were ended, is applied.
  Status flush(Deadline deadline);
  // Waits until servers have read the gradient that was pushed last; in kSync until its step, which
  // was ended, is applied.
  Status wait_until_read(Parameter parameter, std::uint64_t step, Deadline deadline);
  // Waits until weights are as new as the job's consistency asks for.
  Status wait_fresh(Deadline deadline);
  // While the worker waits for something else, from time to time: others may be waiting for a step
  // that this worker has to post again.
  Status handle_changes(Deadline deadline);

  // kInvalidArgument by the worker's policy for gradients that are not finite.
  Status check_gradient(const TensorLink& tensor, std::span<const std::byte> gradient);

 private:
  // The driver loop: does what StepLog::due() says until nothing is due. Fails if a part of the
  // step was not posted in time: then it can be neither ended nor posted again.
  Status catch_up(Deadline deadline);
  // Waits until all shards have forgotten the step, and posts it again: none may have what another
  // one is about to forget. OK also if a later restart has stopped it; then that one is due.
  Status restart_step(Deadline deadline);
  // Posts the END that a restarted step had before it was restarted: in kEndOwed, kComplete
  // afterwards. A failure posts nothing, and the END stays owed. OK also if a later restart has
  // stopped it; then that one is due.
  Status post_owed_end(Deadline deadline);
  // Catches up if the outcome is kRestart. OK: the work was done, or what was recorded of it was
  // posted again; an error of the work is passed on.
  Status catch_up_if_restarted(const Result<WaitOutcome>& outcome, Deadline deadline);
  // Waits until `ready` is true, and catches up as often as it is needed. `what` is for the error
  // when the deadline passes.
  Status wait(InlineFunction<bool()> ready, Deadline deadline, const char* what);

  // Opens the step if none is open. In kSync it also waits until the step before is applied, marks
  // the tensor as pushed in this step (`pushed_in`), and begins the merger's step.
  // kFailedPrecondition: the tensor was pushed in this step already, or the step is at its end.
  Status begin_push(TensorLink& tensor, Deadline deadline);
  // Memory of the worker's for a copy of the gradient, which servers may still be reading.
  Result<std::span<std::byte>> room_for_copy(Parameter parameter,
                                             std::span<const std::byte> gradient,
                                             Deadline deadline);
  // kSync: whether all shards that have the step have applied it.
  bool is_applied(std::uint64_t step) const;

  WorkerContext& context_;
  Membership& members_;
  TensorTable& tensors_;
  MemoryTable& memories_;
  StepLog& log_;
  Waiter waiter_;
  Poster poster_;
  Merger merger_;
  std::vector<PushRecord> rows_;  // without steps in common: payloads that may be on their way
};

}  // namespace ferry::ps
