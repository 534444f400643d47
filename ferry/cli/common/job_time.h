#pragma once

#include <cstdint>

#include "ferry/train/job.h"

namespace ferry::cli {

// Step 1 is traced, step 2 is the first in place, and pages are new in both.
inline constexpr std::uint64_t kWarmSteps = 3;

// The time of a step of a job, once the warm ones are over; of all steps if there are no others.
class StepClock {
 public:
  void note(const train::StepReport& step);
  double step_seconds(std::uint64_t steps) const;

 private:
  std::uint64_t first_ = 0;
  double warm_ = 0;
  double end_ = 0;
};

// The job with one worker that has the variables itself, and as many threads as it has among
// others: nothing is sent.
train::JobOptions alone_job(train::JobOptions job);

// One job, and how long a step of it took after the warm ones. kCancelled if interrupted.
struct JobTime {
  double step_seconds = 0;
  train::JobReport report;
};
Result<JobTime> time_job(const train::JobOptions& options);

// Of the trained variables of all servers.
std::uint64_t variable_bytes(const train::JobPlan& plan);
// What a step reads and writes at least where tensors stay in place (docs/design/dataflow.md):
// gradients are written and read once for each worker, weights once.
std::uint64_t least_memory_bytes(std::uint64_t variable_bytes, std::uint32_t workers);
// Bytes read and written in a second by one thread on each core that copies memory.
double memory_speed();

}  // namespace ferry::cli
