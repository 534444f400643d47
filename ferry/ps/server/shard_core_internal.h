#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/ps/server/image_internal.h"
#include "ferry/ps/server/intake_internal.h"
#include "ferry/ps/server/worker_connections_internal.h"

namespace ferry::ps {

// What a shard owns and does: parts of tensors, the workers that push to them, and the steps in
// which their gradients are applied. Only the shard's thread uses it, between two entries or for
// one; Shard::run() hands it to commands of other threads.
//
// Between calls no step is complete that is not applied, unless it is held, and every worker was
// told all that has changed.
class ShardCore {
 public:
  // `alone`: it is the only shard of the job. `newcomer`: nothing but first values is taken before
  // install().
  ShardCore(const JobOptions& job, WorkerConnections workers, bool alone, bool newcomer);
  ShardCore(const ShardCore&) = delete;  // parts call back
  ShardCore& operator=(const ShardCore&) = delete;

  // Takes entries of all workers; false if there were none.
  bool serve_all();
  bool has_work() const { return workers_.has_work(); }

  // `words` is the worker's line for this shard.
  Result<ShardPlace> attach(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                            const fabric::RemoteAt& words);
  void add_memory(std::uint32_t rank, std::span<const std::byte> memory);
  // Where the worker wants what it asks to have sent back.
  void add_landing(std::uint32_t rank, std::uint32_t part, const fabric::RemoteAt& at);
  std::uint32_t add_part(std::unique_ptr<Part> part);
  PartList& parts() { return parts_; }

  struct Frozen {
    std::uint64_t ended = 0;   // the last step that it ended
    std::uint64_t folded = 0;  // the open step, if something of it was added up there
  };
  // Takes no further entry of that worker.
  Frozen freeze(std::uint32_t rank);
  // The worker is out after that step; `restart`: a step that restarts, perhaps the next one.
  void commit_departure(std::uint32_t rank, std::uint64_t through, const Restart& restart);
  // No step is applied from now on, until somebody is admitted, or nobody.
  void hold() { clock_.hold(); }
  // The worker is part of all steps after that one.
  void admit(std::uint32_t rank, std::uint64_t since, std::uint32_t attempt);
  void release();
  const StepClock& clock() const { return clock_; }

  // An image is made as soon as that step is applied; 0: none is wanted any more.
  void copy_after(std::uint64_t step);
  std::shared_ptr<ShardImage> image() const { return image_; }
  // Continues from the image, whose parts' values it takes.
  void install(ShardImage& image);
  // Some server is out, or has come: workers are told before anything that follows from it.
  void apply_view(std::uint64_t view);
  // The job has failed: workers are told, and nothing else from then on.
  void abort(const AbortCause& cause);
  // Whether workers have pushed something that is not applied yet.
  bool is_step_begun() const;
  const ShardStats& stats() const { return stats_; }

 private:
  // A worker that left before the newcomer had its image.
  struct Departure {
    std::uint32_t rank = 0;
    std::uint64_t through = 0;
    Restart restart;
  };

  // Takes a bounded number of entries of one worker; false if there were none.
  bool serve(WorkerConnection& worker);
  // The worker has broken the protocol: it is told how, and not heard any more.
  void refuse(WorkerConnection& worker, const Entry& entry, Breach breach);
  static void end_worker(WorkerConnection& worker, const AbortCause& cause);
  // Does what may have become possible, and tells workers.
  void advance();
  // Folds held payloads, so that the worker still has half of its slots.
  void fold_held(WorkerConnection& worker);
  // Whether the payload of the slot is next to be added up. Sums are made in the order of ranks:
  // lower ones must have contributed to the block, or ended the step.
  bool can_fold(const HeldSlot& slot, std::uint32_t rank) const;
  // Applies the open step, which is complete, tells workers, and makes an image if one is wanted.
  void apply_step();
  // Sends the newest version of a block to the workers that want it back.
  void send_back(std::uint32_t part, std::uint32_t block);
  // The step restarts: now if it is the open one, else when it is.
  void restart_step(const Restart& restart);
  // Forgets the open step. Workers are told after the clock, and so know which step it is.
  void forget_step();
  // Makes the image, when a step was applied: nothing of the next one was taken yet.
  void take_image();
  // Ends the leases of workers whose channels have ended. One that is only believed to be dead
  // learns it when it ends its lease.
  void end_leases_of_dead() const;

  const JobOptions job_;
  const bool alone_;
  PartList parts_;
  WorkerConnections workers_;
  StepClock clock_;
  ShardStats stats_;
  Intake intake_;
  std::uint64_t view_ = 0;
  std::optional<AbortCause> cause_;    // the job has failed
  bool awaits_image_;                  // workers are told nothing until then
  std::vector<Departure> departures_;  // that came meanwhile
  std::uint64_t copy_after_ = 0;       // the step after which an image is made
  std::shared_ptr<ShardImage> image_;
};

}  // namespace ferry::ps
