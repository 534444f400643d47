#include "bench/models/targets.h"

namespace ferry::bench {
namespace {

const std::vector<std::string> kMuchSent = {"vgg-16", "alexnet", "fcn-5"};
const std::vector<std::string> kMuchComputed = {"lstm", "gru", "inception-v3", "resnet-50"};

cli::Estimate of_computation(const PathFigures& path, double computation) {
  if (computation <= 0) return {};
  const std::vector<double> same(path.step_seconds.size(), computation);
  return cli::ratio_of_pairs(path.step_seconds, same);
}

ModelVerdict judge_one(const ModelTarget& target, const ModelFigures& figures,
                       const PathFigures& ours, const PathFigures& theirs) {
  ModelVerdict verdict{&target, figures.model,
                       cli::ratio_of_pairs(ours.step_seconds, theirs.step_seconds),
                       of_computation(ours, figures.computation)};
  verdict.outcome = outcome_of(verdict.ratio, target.bound);
  if (target.or_of_computation > 0 && verdict.of_computation.count > 0)
    verdict.outcome =
        std::min(verdict.outcome, outcome_of(verdict.of_computation, target.or_of_computation));
  return verdict;
}

}  // namespace

const std::vector<ModelTarget>& model_targets() {
  static const std::vector<ModelTarget> targets = {
      {"shm-sends", "in place: 3x the steps of gRPC or more", kMuchSent, "ferry", "grpc", 1 / 3.0},
      {"shm-computes", "in place: 1.2x the steps of gRPC, or within 3 % of computation alone",
       kMuchComputed, "ferry", "grpc", 1 / 1.2, 1.03},
      {"tcp-sends", "tcp: 1.5x the steps of gRPC or more", kMuchSent, "ferry/tcp", "grpc", 1 / 1.5},
      {"tcp-computes", "tcp: never slower than gRPC", kMuchComputed, "ferry/tcp", "grpc", 1.0,
       1.03},
      {"zero-copy", "in place: 1.1x the steps of ferry-copy", kMuchSent, "ferry", "ferry-copy",
       1 / 1.1},
      {"learns",
       "real computation, in place: faster than gRPC, and so sooner at 90 %",
       {"lenet"},
       "ferry",
       "grpc",
       1.0,
       0,
       false},
      {"overhead",
       "real computation, in place: at most 5 % more than a worker alone",
       {"lenet"},
       "ferry",
       "alone",
       1.05,
       0,
       false},
      {"no-private", "in place: 1.2x the steps of ferry-private", kMuchSent, "ferry",
       "ferry-private", 1 / 1.2}};
  return targets;
}

std::vector<ModelVerdict> judge_models(const std::vector<ModelFigures>& figures) {
  std::vector<ModelVerdict> verdicts;
  for (const auto& target : model_targets())
    for (const auto& model : figures) {
      if (std::find(target.models.begin(), target.models.end(), model.model) == target.models.end())
        continue;
      if (target.emulated != (model.computation > 0)) continue;
      const auto* ours = model.path(target.path);
      const auto* theirs = model.path(target.against);
      if (ours != nullptr && theirs != nullptr)
        verdicts.push_back(judge_one(target, model, *ours, *theirs));
    }
  return verdicts;
}

}  // namespace ferry::bench
