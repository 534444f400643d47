#include "ferry/cli/train_compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/job_time.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/train_progress.h"

namespace ferry::cli {
namespace {

bool is_interrupted() { return InterruptGuard::interrupted(); }

// The first round: with progress, and a test of what was learnt if that is wanted.
Result<Trained> train_first(const train::JobOptions& options, bool test, std::FILE* out) {
  const auto plan = FERRY_TRY(train::plan_job(options));  // what cannot be is said at once
  fmt::print(out, "{}: {}, batch {}, {}, {}\n", options.model, tasks_text(options), options.batch,
             counted(options.steps, "step"), path_text(options));
  print_made_up(train::made_up(plan), out);
  TrainProgress progress(options, out);
  LearningCurve curve;
  StepClock clock;
  auto report = FERRY_TRY(train::run_job(
      options,
      [&](const train::StepReport& step) {
        if (step.worker == 0) progress(step);
        curve.add(step);
        clock.note(step);
      },
      is_interrupted));
  curve.end();
  const TrainRound round{0, report.seconds, clock.step_seconds(options.steps)};
  Trained trained{options, std::move(report), std::move(curve)};
  trained.rounds.push_back(round);
  if (!trained.report.tests.empty()) {
    trained.tested = trained.report.tests.back().tested;
  } else if (test && train::has_test_set(trained.report.feeds)) {
    trained.tested = FERRY_TRY(train::test_model(options, trained.report.variables));
  }
  return trained;
}

// A later round: only its time counts.
Result<TrainRound> time_again(train::JobOptions options, int number, std::FILE* out) {
  options.test_every = 0;
  options.take_variables = false;
  const auto timed = FERRY_TRY(time_job(options));
  fmt::print(out, "round {}: {}, {:.2f} ms a step\n", number, path_text(options),
             timed.step_seconds * 1e3);
  std::fflush(out);
  return TrainRound{0, timed.report.seconds, timed.step_seconds};
}

// Seconds that one worker computes for a step when nothing is sent.
Result<double> time_alone(const train::JobOptions& like, int number, std::FILE* out) {
  constexpr std::uint64_t kMostAloneSteps = 15;
  auto job = alone_job(like);
  job.transport = train::Transport::kFerry;
  job.provider = "auto";
  job.places.clear();
  job.namespaces.clear();
  job.checkpoints.clear();
  job.save_every = 0;
  job.resume = false;
  job.test_every = 0;
  job.take_variables = false;
  job.steps = std::min(job.steps, kMostAloneSteps);
  const auto timed = FERRY_TRY(time_job(job));
  fmt::print(out, "round {}: one worker that sends nothing, {:.2f} ms a step\n", number,
             timed.step_seconds * 1e3);
  std::fflush(out);
  return timed.step_seconds;
}

// What the tensors of the job went through.
StepPath step_path(const Trained& job) {
  if (job.options.transport == train::Transport::kGrpc) return StepPath::kSocket;
  auto provider = job.options.provider;
  if (const auto figures = job.sent(); !figures.registrations.empty())
    provider = figures.registrations.size() == 1 ? figures.registrations[0].provider : "several";
  if (provider == "tcp") return StepPath::kSocket;
  return provider == "shm" ? StepPath::kMemory : StepPath::kOther;
}

// What a step cannot be faster than: the best of what each round measured, since whatever else the
// machine does can only add to it.
class Limits {
 public:
  Status measure(const train::JobOptions& job, int round, std::FILE* out) {
    if (!job.emulate) alone_.push_back(FERRY_TRY(time_alone(job, round, out)));
    memory_.push_back(memory_speed());
    socket_.push_back(FERRY_TRY(socket_speed()));
    return {};
  }
  // Bytes a second; 0: not known.
  double speed(StepPath path) const {
    if (path == StepPath::kOther) return 0;
    const auto& speeds = path == StepPath::kMemory ? memory_ : socket_;
    return *std::max_element(speeds.begin(), speeds.end());
  }
  double computation(const train::JobPlan& plan) const {
    if (alone_.empty()) return plan.emulated_seconds;
    return *std::min_element(alone_.begin(), alone_.end());
  }

 private:
  std::vector<double> alone_;  // seconds of a step
  std::vector<double> memory_;
  std::vector<double> socket_;
};

Result<StepBound> bound_of(const Trained& job, const Limits& limits) {
  const auto plan = FERRY_TRY(train::plan_job(job.options));
  StepBound bound;
  bound.step = median(job.step_seconds());
  bound.computation = limits.computation(plan);
  bound.emulated = job.options.emulate;
  bound.path = step_path(job);
  if (bound.path == StepPath::kMemory)
    bound.bytes = least_memory_bytes(variable_bytes(plan), job.options.workers);
  if (bound.path == StepPath::kSocket) bound.bytes = job.sent().sent.bytes / job.report.steps;
  if (const auto speed = limits.speed(bound.path); speed > 0)
    bound.carrying = static_cast<double>(bound.bytes) / speed;
  return bound;
}

}  // namespace

Result<std::vector<Trained>> train_in_turns(const std::vector<train::JobOptions>& jobs, int rounds,
                                            bool test, std::FILE* out) {
  const bool compares = jobs.size() > 1;
  std::vector<Trained> trained;
  Limits limits;
  std::uint64_t turn = 0;
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t index = 0; index < jobs.size(); ++index) {
      if (round == 1) {
        trained.push_back(FERRY_TRY(train_first(jobs[index], test, out)));
      } else {
        trained[index].rounds.push_back(FERRY_TRY(time_again(jobs[index], round, out)));
      }
      trained[index].rounds.back().turn = turn++;
    }
    if (compares) FERRY_TRY(limits.measure(jobs.front(), round, out));
  }
  if (compares)
    for (auto& job : trained) job.bound = FERRY_TRY(bound_of(job, limits));
  return trained;
}

}  // namespace ferry::cli
