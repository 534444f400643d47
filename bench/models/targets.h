#pragma once

#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "bench/models/measure.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// The time of a step over one path is at most `bound` times that over another; or, where that is
// allowed, at most so many times the computation alone.
struct ModelTarget {
  std::string id;
  std::string sentence;
  std::vector<std::string> models;
  std::string path;
  std::string against;
  double bound = 1;
  double or_of_computation = 0;  // 0: there is no such way out
  bool emulated = true;          // of models whose computation is; else of real computation
};
const std::vector<ModelTarget>& model_targets();

struct ModelVerdict {
  const ModelTarget* target = nullptr;
  std::string model;
  cli::Estimate ratio;
  cli::Estimate of_computation;
  Outcome outcome = Outcome::kMet;
};
// For each target and model of which both paths were measured.
std::vector<ModelVerdict> judge_models(const std::vector<ModelFigures>& figures);

}  // namespace ferry::bench
