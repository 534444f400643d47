#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ps/server/part_list_internal.h"
#include "ferry/ps/server/step_clock_internal.h"
#include "ferry/ps/server/worker_connection_internal.h"

namespace ferry::ps {

// What a shard did, counted.
struct ShardStats {
  std::uint64_t entries = 0;
  std::uint64_t in_place = 0;  // payloads that were read where the worker had them
  std::uint64_t bytes = 0;     // of payloads
  std::uint64_t steps = 0;     // that were applied
  std::uint64_t breaches = 0;
};

// Takes the entries of workers: checks each one, and hands its payload to the part that it is for.
// Nothing that a worker wrote is believed: what fails a check is a breach, and changes nothing but
// the blocks of the same entry before the one that failed. Belongs to the shard's thread.
class Intake {
 public:
  enum class Outcome { kTaken, kWaits, kBreach };

  Intake(const JobOptions& job, StepClock& clock, const PartList& parts, ShardStats& stats)
      : job_(job), clock_(clock), parts_(parts), stats_(stats) {}
  // kWaits: nothing has changed; the entry is to be taken later.
  Outcome take(WorkerConnection& from, const Entry& entry);
  // Of the last entry for which take() has said kBreach.
  Breach breach() const { return breach_; }

 private:
  // Notes which check the entry has failed.
  Outcome refuse(Breach breach) {
    breach_ = breach;
    return Outcome::kBreach;
  }
  // The worker has ended a step.
  Outcome take_end(const WorkerConnection& from, const Entry& entry);
  // Finds the part that the entry is for, and takes its blocks or rows.
  Outcome take_payload(WorkerConnection& from, const Entry& entry);
  // Hands a gradient, or first values, of whole blocks to the part.
  Outcome take_blocks(WorkerConnection& from, Part& part, const Entry& entry);
  // Hands rows of a gradient to the part. In steps in common they wait for lower ranks.
  Outcome take_rows(WorkerConnection& from, Part& part, const Entry& entry);
  // Notes or sends the new values of what the worker has pushed in a slot, if it wants them back.
  static void answer_push(WorkerConnection& from, Part& part, const Entry& entry, bool pending);

  const JobOptions job_;
  StepClock& clock_;
  const PartList& parts_;
  ShardStats& stats_;
  std::vector<std::uint64_t> keys_;
  Breach breach_{};
};

}  // namespace ferry::ps
