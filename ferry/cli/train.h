#pragma once

#include <CLI/App.hpp>
#include <string>

#include "ferry/cli/common/job_options.h"

namespace ferry::cli {

struct TrainFlags : JobFlags {
  std::string json;
  std::string html;
  bool no_test = false;
  double goal = 0;  // per cent of the test set; 0: none
  int rounds = 0;   // of each transport; 0: as usual
};
// Those of a job that runs.
void add_training_options(CLI::App& command, TrainFlags& flags);
// Runs the jobs, with progress and a report; the exit status.
Result<int> run_train(const TrainFlags& flags);

// `ferry train`: trains a model with several processes of this machine.
void add_train(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
