#include "bench/models/measure.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/hash.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_time.h"

namespace ferry::bench {
namespace {

constexpr std::uint64_t kTrialSteps = cli::kWarmSteps + 2;
constexpr std::uint64_t kLeastSteps = 4;
constexpr std::uint64_t kMostSteps = 100;

std::uint64_t checksum_of(const storage::NamedTensors& variables) {
  Hash hash;
  for (const auto& [name, tensor] : variables) {
    hash.take(name);
    const auto bytes = tensor.bytes();
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      hash.take(word);
    }
    for (auto at = bytes.size() / 8 * 8; at < bytes.size(); ++at)
      hash.take(static_cast<std::uint64_t>(bytes[at]));
  }
  return hash.value();
}

train::JobOptions job_for(const ModelsPlan& plan, const std::string& model, const TrainPath& path) {
  auto job = plan.job;
  job.model = model;
  job.transport = path.transport;
  job.provider = path.provider;
  const auto made = models::make_model(model, {.batch = job.batch});
  job.emulate = job.emulate && made && made->facts.can_be_emulated();
  return path.alone ? cli::alone_job(std::move(job)) : job;
}

// A few steps, whose weights are looked at: how long one takes, and whether the bytes are right.
Status try_path(const ModelsPlan& plan, const std::string& model, PathFigures& figures) {
  auto job = job_for(plan, model, figures.path);
  job.steps = kTrialSteps;
  const auto timed = FERRY_TRY(cli::time_job(job));
  figures.checksum = checksum_of(timed.report.variables);
  const auto wanted = static_cast<std::uint64_t>(plan.seconds / std::max(timed.step_seconds, 1e-6));
  figures.steps = cli::kWarmSteps + std::clamp(wanted, kLeastSteps, kMostSteps);
  return {};
}

Status measure_path(const ModelsPlan& plan, const std::string& model, PathFigures& figures) {
  auto job = job_for(plan, model, figures.path);
  job.steps = figures.steps;
  job.take_variables = false;
  const auto timed = FERRY_TRY(cli::time_job(job));
  figures.step_seconds.push_back(timed.step_seconds);
  figures.sent = cli::sent_by(timed.report.tasks);
  const auto& all = figures.sent.sent;
  figures.one_step = {all.tensors / job.steps, all.bytes / job.steps, all.in_place / job.steps,
                      all.copies / job.steps, all.endpoint_bytes / job.steps};
  return {};
}

Result<ModelFigures> figures_of(const ModelsPlan& plan, const std::string& name) {
  ModelFigures figures;
  const auto begun = now_ns();
  const auto planned = FERRY_TRY(train::plan_job(job_for(plan, name, plan.paths.front())));
  figures.plan_seconds = static_cast<double>(now_ns() - begun) * 1e-9;
  figures.model = name;
  figures.facts = planned.model.facts;
  figures.computation = planned.emulated_seconds;
  figures.estimated = planned.estimated;
  figures.crossings = planned.partition.crossings.size();
  figures.variables = planned.program.trained.size();
  figures.variable_bytes = cli::variable_bytes(planned);
  const auto bytes =
      static_cast<double>(cli::least_memory_bytes(figures.variable_bytes, plan.job.workers));
  figures.memory_bound = plan.memory_speed > 0 ? bytes / plan.memory_speed : 0;
  for (const auto& path : plan.paths) figures.paths.emplace_back().path = path;
  return figures;
}

void expect_equal_weights(ModelFigures& figures) {
  const PathFigures* first = nullptr;
  for (auto& path : figures.paths) {
    if (!path.failed.empty() || path.path.alone) continue;
    if (first == nullptr) first = &path;
    if (path.checksum != first->checksum)
      path.failed = fmt::format("its weights differ from those of {}", first->path.name);
  }
}

void measure_model(const ModelsPlan& plan, ModelFigures& figures, const OnModel& on_model) {
  const auto visit = [&](int repetition, auto&& what) {
    for (auto& path : figures.paths) {
      if (!path.failed.empty() || cli::InterruptGuard::interrupted()) continue;
      on_model(figures.model, path.path.name, repetition);
      if (const Status done = what(plan, figures.model, path); !done)
        path.failed = done.error().message();
    }
  };
  visit(0, try_path);
  expect_equal_weights(figures);
  for (int repetition = 1; repetition <= plan.repeat; ++repetition) visit(repetition, measure_path);
}

}  // namespace

Result<TrainPath> train_path_named(const std::string& name) {
  if (name == "alone") return TrainPath{.name = name, .alone = true};
  const auto slash = name.find('/');
  TrainPath path{name, FERRY_TRY(train::transport_named(name.substr(0, slash)))};
  if (slash != std::string::npos) path.provider = name.substr(slash + 1);
  if (path.provider != "shm" && path.provider != "tcp")
    return fail(Code::kInvalidArgument, "{}: a transport runs over shm or tcp", name);
  return path;
}

const PathFigures* ModelFigures::path(const std::string& name) const {
  for (const auto& each : paths)
    if (each.path.name == name && !each.step_seconds.empty()) return &each;
  return nullptr;
}

std::vector<ModelFigures> measure_models(const ModelsPlan& plan, const OnModel& on_model) {
  std::vector<ModelFigures> all;
  for (const auto& name : plan.models) {
    if (cli::InterruptGuard::interrupted()) break;
    auto figures = figures_of(plan, name);
    if (!figures) {
      auto& left_out = all.emplace_back();
      left_out.model = name;
      left_out.paths.emplace_back().failed = figures.error().message();
      continue;
    }
    measure_model(plan, *figures, on_model);
    all.push_back(*std::move(figures));
  }
  return all;
}

}  // namespace ferry::bench
