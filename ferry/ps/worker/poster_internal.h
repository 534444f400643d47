// Data path.
#pragma once

#include "ferry/ps/worker/memory_table_internal.h"
#include "ferry/ps/worker/tensor_table_internal.h"
#include "ferry/ps/worker/waiter_internal.h"

namespace ferry::ps {

// A dense tensor that is posted to all copies of its parts, and how much of it is.
struct DensePost {
  Parameter parameter = 0;
  Operation operation = Operation::kPush;
  std::span<const std::byte> values{};
  bool back = false;       // the new values are to be sent back
  std::uint64_t step = 0;  // of the entries

  std::size_t in_place_done = 0;  // parts that were looked at for entries in place
  std::uint32_t block = 0;        // the next block, and the part that it is of
  std::size_t part = 0;
};

// Turns gradients into entries in the rings of shards. What it posts stays in memory of the caller
// until it has landed. Used by the thread that calls the worker.
//
// Each of its calls may end with kRestart: nothing more is posted then, and the log is to be posted
// again under the new attempt.
class Poster {
 public:
  Poster(WorkerContext& context, Membership& members, TensorTable& tensors, MemoryTable& memories,
         StepLog& log, Waiter& waiter)
      : context_(context),
        members_(members),
        tensors_(tensors),
        memories_(memories),
        log_(log),
        waiter_(waiter) {}

  // Posts what is left of it, and notes in `post` how far it came.
  Result<WaitOutcome> post_dense(DensePost& post, Deadline deadline);
  // Posts one push again, or for the first time.
  Result<WaitOutcome> post_record(const PushRecord& push, std::uint64_t step, Deadline deadline);
  // Calls `post`, which posts entries of the open step. In kSync the log is told whether all, or
  // only some, were posted.
  template <class Post>
  Result<WaitOutcome> post_in_step(Post post) {
    if (!context_.is_sync()) return post();
    log_.begin_post();
    auto outcome = post();
    if (!outcome)
      log_.fail();
    else if (*outcome == WaitOutcome::kReady)
      log_.posted();
    return outcome;
  }
  // Waits until all that was posted in the step has landed everywhere, and there is room for an END
  // at every shard.
  Result<WaitOutcome> prepare_end(std::uint64_t step, Deadline deadline);
  // After prepare_end(): posts END to all shards, without waiting.
  void post_end(std::uint64_t step);

 private:
  // Posts the rows of one part to all copies of it.
  Result<WaitOutcome> post_rows(const PushRecord& rows, std::uint64_t step, Deadline deadline);
  // Posts one entry for each whole part whose server maps the memory.
  Result<WaitOutcome> post_in_place(DensePost& post, const Memory& memory, Deadline deadline);
  // Posts the block that `post` is at, through a slot. After make_room().
  void post_block(const DensePost& post, PartLink& part);
  // Waits until an entry, and its payload if that goes through a slot, can be posted.
  Result<WaitOutcome> make_room(ShardLink& link, bool slot, Deadline deadline);
  // Posts an entry whose payload goes through a slot, and counts it. After make_room().
  void post_slot(ShardLink& link, const Entry& entry, std::span<const std::byte> payload);

  WorkerContext& context_;
  Membership& members_;
  TensorTable& tensors_;
  MemoryTable& memories_;
  StepLog& log_;
  Waiter& waiter_;
};

}  // namespace ferry::ps
