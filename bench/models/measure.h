#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ferry/cli/common/sent_report.h"
#include "ferry/train/job.h"

namespace ferry::bench {

// A transport with its provider: "ferry", "ferry/tcp", "ferry-copy", "grpc",
// "grpc+ferry"; or "alone".
struct TrainPath {
  std::string name;
  train::Transport transport = train::Transport::kFerry;
  std::string provider = "shm";
  bool alone = false;  // one worker that has the variables itself: nothing is sent
};
Result<TrainPath> train_path_named(const std::string& name);

// A model over one path. Entry i of `step_seconds` is repetition i: the mean time of a step, once
// the first few are over.
struct PathFigures {
  TrainPath path;
  std::vector<double> step_seconds;
  std::uint64_t steps = 0;          // of one repetition
  runtime::CrossingStats one_step;  // what all tasks sent in one
  cli::SentFigures sent;            // in all steps of the last repetition
  std::uint64_t checksum = 0;       // of all variables after the same few steps
  std::string failed;               // why there are no figures
};

struct ModelFigures {
  std::string model;
  models::ModelFacts facts;
  std::uint64_t variables = 0;
  std::uint64_t variable_bytes = 0;
  std::uint64_t crossings = 0;
  double computation = 0;  // seconds of a step, where it is emulated
  bool estimated = false;
  double plan_seconds = 0;
  double memory_bound = 0;  // seconds that the memory alone needs for a step
  std::vector<PathFigures> paths;

  const PathFigures* path(const std::string& name) const;
};

struct ModelsPlan {
  std::vector<std::string> models;
  std::vector<TrainPath> paths;
  train::JobOptions
      job;  // but for model, transport, provider and steps; what cannot is not emulated
  int repeat = 5;
  double seconds = 3;       // of one repetition, about
  double memory_speed = 0;  // bytes a second, read and written, of all cores together
};

using OnModel =
    std::function<void(const std::string& model, const std::string& path, int repetition)>;
// Paths take turns in each repetition. Stops early when interrupted, with what there is. A failure
// of one path is in its figures.
std::vector<ModelFigures> measure_models(const ModelsPlan& plan, const OnModel& on_model);

}  // namespace ferry::bench
