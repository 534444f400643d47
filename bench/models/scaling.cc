#include "bench/models/scaling.h"

#include <map>

#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::bench {
namespace {

// What paper 000 reached with 8 hosts is 0.63, 0.99 and 0.54.
const std::map<std::string, double> kLeastOfLinear = {
    {"lstm", 0.85}, {"inception-v3", 0.85}, {"vgg-16", 0.6}};
constexpr std::uint32_t kJudged = 8;  // workers

// The times of one worker that has the variables itself, by model.
std::map<std::string, std::vector<double>> times_alone(ModelsPlan plan, const OnModel& on_model) {
  plan.job.workers = 1;
  plan.job.servers = 0;
  plan.paths.resize(1);
  std::map<std::string, std::vector<double>> times;
  for (const auto& model : measure_models(plan, on_model))
    times[model.model] = model.paths.front().step_seconds;
  return times;
}

ScalePoint point_of(const ModelFigures& model, const PathFigures& path, std::uint32_t workers,
                    const std::vector<double>& alone) {
  ScalePoint point{model.model, path.path.name, workers, cli::estimate(path.step_seconds)};
  point.failed = path.failed;
  if (path.step_seconds.empty() || alone.empty()) return point;
  // A step does the work of all workers in the time of one.
  point.of_linear = cli::ratio_of_pairs(alone, path.step_seconds);
  const auto found = kLeastOfLinear.find(model.model);
  if (found == kLeastOfLinear.end() || workers != kJudged || path.path.name != "ferry")
    return point;
  point.bound = found->second;
  point.outcome = outcome_of(cli::ratio_of_pairs(path.step_seconds, alone), 1 / point.bound);
  return point;
}

}  // namespace

std::vector<ScalePoint> measure_scaling(const ModelsPlan& plan,
                                        const std::vector<std::uint32_t>& workers,
                                        const OnModel& on_model) {
  const auto alone = times_alone(plan, on_model);
  std::vector<ScalePoint> points;
  for (const auto count : workers) {
    if (cli::InterruptGuard::interrupted()) break;
    auto scaled = plan;
    scaled.job.workers = count;
    scaled.job.servers = count;
    for (const auto& model : measure_models(scaled, on_model))
      for (const auto& path : model.paths)
        points.push_back(point_of(model, path, count, alone.at(model.model)));
  }
  return points;
}

}  // namespace ferry::bench
