#pragma once

#include <string>
#include <vector>

#include "ferry/train/job.h"

namespace ferry::train {

// What a crossing does in each step, once the first step has been traced.
struct CrossingForecast {
  // Tensors that the transport sends, with their bytes (0 where the shape varies), those that the
  // receiver uses where they were produced, and copies. A shared variable is leased, not sent: all
  // are 0.
  runtime::CrossingStats step;
  std::string_view how;  // in words: which memory the tensor is in, and what is done to it
};

// For each crossing of the plan, by its number: what the executors of the job will do, found by
// the rules that they follow (docs/design/dataflow.md). Tensors of unknown size that are not
// produced in memory of their crossing are taken to be small: 16 KiB at most.
std::vector<CrossingForecast> forecast(const JobPlan& plan, const JobOptions& options);

}  // namespace ferry::train
