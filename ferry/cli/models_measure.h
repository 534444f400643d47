#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ferry/cli/bench_stats.h"
#include "ferry/cli/sent_report.h"
#include "ferry/train/job.h"

namespace ferry::cli {

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
  SentFigures sent;                 // in all steps of the last repetition
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
