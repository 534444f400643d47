#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "bench/models/measure.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// A model with so many workers and as many servers, over one path.
struct ScalePoint {
  std::string model;
  std::string path;
  std::uint32_t workers = 0;
  cli::Estimate step_seconds = {};
  cli::Estimate of_linear = {};  // of so many times what one worker does alone, without a server
  double bound = 0;              // at least; 0: there is no target
  Outcome outcome = Outcome::kMet;
  std::string failed = {};
};

// Each number of workers in turn, beside one worker alone. The plan's own numbers do not count.
std::vector<ScalePoint> measure_scaling(const ModelsPlan& plan,
                                        const std::vector<std::uint32_t>& workers,
                                        const OnModel& on_model);

}  // namespace ferry::bench
