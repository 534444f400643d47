#include "ferry/cli/models_measure.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/hash.h"
#include "ferry/cli/bench_child.h"

namespace ferry::cli {
namespace {

constexpr std::uint64_t kTrialSteps = kWarmSteps + 2;
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
  return path.alone ? alone_job(std::move(job)) : job;
}

// A few steps, whose weights are looked at: how long one takes, and whether the bytes are right.
Status try_path(const ModelsPlan& plan, const std::string& model, PathFigures& figures) {
  auto job = job_for(plan, model, figures.path);
  job.steps = kTrialSteps;
  const auto timed = FERRY_TRY(time_job(job));
  figures.checksum = checksum_of(timed.report.variables);
  const auto wanted = static_cast<std::uint64_t>(plan.seconds / std::max(timed.step_seconds, 1e-6));
  figures.steps = kWarmSteps + std::clamp(wanted, kLeastSteps, kMostSteps);
  return {};
}

Status measure_path(const ModelsPlan& plan, const std::string& model, PathFigures& figures) {
  auto job = job_for(plan, model, figures.path);
  job.steps = figures.steps;
  job.take_variables = false;
  const auto timed = FERRY_TRY(time_job(job));
  figures.step_seconds.push_back(timed.step_seconds);
  figures.sent = sent_by(timed.report.tasks);
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
  figures.variable_bytes = variable_bytes(planned);
  const auto bytes =
      static_cast<double>(least_memory_bytes(figures.variable_bytes, plan.job.workers));
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
      if (!path.failed.empty() || InterruptGuard::interrupted()) continue;
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

void StepClock::note(const train::StepReport& step) {
  if (first_ == 0) first_ = step.step;  // others than 1 after --resume
  if (step.step < first_ + kWarmSteps) warm_ = std::max(warm_, step.seconds);
  end_ = std::max(end_, step.seconds);
}

double StepClock::step_seconds(std::uint64_t steps) const {
  if (steps <= kWarmSteps) return end_ / static_cast<double>(steps);
  return (end_ - warm_) / static_cast<double>(steps - kWarmSteps);
}

train::JobOptions alone_job(train::JobOptions job) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  if (job.threads == 0) job.threads = std::max(1U, cores / (job.workers + job.servers));
  job.workers = 1;
  job.servers = 0;
  return job;
}

Result<JobTime> time_job(const train::JobOptions& options) {
  StepClock clock;
  auto report = FERRY_TRY(train::run_job(
      options, [&clock](const train::StepReport& step) { clock.note(step); },
      [] { return InterruptGuard::interrupted(); }));
  return JobTime{clock.step_seconds(options.steps), std::move(report)};
}

std::uint64_t variable_bytes(const train::JobPlan& plan) {
  std::uint64_t bytes = 0;
  for (const auto id : plan.program.trained)
    bytes += plan.program.graph.spec({id, 0}).bytes().value_or(0);
  return bytes;
}

std::uint64_t least_memory_bytes(std::uint64_t variable_bytes, std::uint32_t workers) {
  return (2 * std::uint64_t{workers} + 2) * variable_bytes;
}

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
    if (InterruptGuard::interrupted()) break;
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

double memory_speed() {
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr Nanos kTime = std::chrono::milliseconds(400);
  std::vector<double> speeds(std::max(1U, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> threads;
    threads.reserve(speeds.size());
    for (auto& speed : speeds)
      threads.emplace_back([&speed] {
        const std::vector<std::byte> from(kBytes, std::byte{1});
        std::vector<std::byte> to(kBytes, std::byte{2});
        const auto until = Deadline::after(kTime);
        const auto begun = now_ns();
        double bytes = 0;
        for (; !until.expired(); bytes += 2 * kBytes) std::memcpy(to.data(), from.data(), kBytes);
        speed = bytes / static_cast<double>(now_ns() - begun) * 1e9;
      });
  }
  double sum = 0;
  for (const auto speed : speeds) sum += speed;
  return sum;
}

}  // namespace ferry::cli
