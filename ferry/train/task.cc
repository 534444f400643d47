#include <sys/prctl.h>

#include <cmath>
#include <optional>
#include <thread>

#include "ferry/base/hash.h"
#include "ferry/models/data.h"
#include "ferry/ops/threads.h"
#include "ferry/train/task_internal.h"

namespace ferry::train {
namespace {

constexpr Nanos kLongestJob = std::chrono::hours(24 * 365);

// What a worker is fed with, and says about its steps; a server does neither.
class Work {
 public:
  static Result<Work> open(const TaskRun& run) {
    Work work(run);
    const auto& workers = run.plan.program.workers;
    for (std::uint32_t index = 0; index < workers.size(); ++index)
      if (workers[index].task.to_string() == run.task) work.worker_ = index;
    if (work.worker_) FERRY_TRY(work.open_data());
    return work;
  }

  bool worker() const { return worker_.has_value(); }
  std::vector<std::string> fetches() const {
    if (!worker_) return {};
    const auto& graph = run_.plan.program.graph;
    std::vector<std::string> names = {graph.node(own().loss.node).name};
    if (const auto found = own().metrics.find("accuracy"); found != own().metrics.end())
      names.push_back(graph.node(found->second.node).name);
    return names;
  }

  Result<std::vector<runtime::Feed>> feed(std::uint64_t step) {
    std::vector<runtime::Feed> feeds;
    if (!worker_) return feeds;
    for (auto& [name, tensor] : data_->of_step(run_.first - 1 + step))
      feeds.push_back(
          {run_.plan.program.graph.node(own().inputs.at(name)).name, std::move(tensor)});
    return feeds;
  }

  Status report(std::uint64_t step, std::span<const tensor::Tensor> fetched, double seconds,
                TaskLine& line) const {
    if (!worker_) return {};
    StepReport report{.worker = *worker_,
                      .step = run_.first - 1 + step,
                      .loss = {},
                      .accuracy = {},
                      .seconds = seconds};
    const auto loss = fetched[0].elements<float>()[0];
    if (!std::isfinite(loss))
      return fail(Code::kOutOfRange,
                  "the loss is {} in step {}: training has gone astray; try a lower rate than {}",
                  loss, report.step, run_.options.rate);
    if (!run_.options.emulate) report.loss = loss;
    if (fetched.size() > 1 && run_.plan.model.feeds != models::Feeds::kSynthetic)
      report.accuracy = fetched[1].elements<float>()[0];
    return line.say_step(report);
  }

 private:
  explicit Work(const TaskRun& run) : run_(run) {}

  const graph::Replicated::Worker& own() const { return run_.plan.program.workers[*worker_]; }

  Status open_data() {
    data_ = FERRY_TRY(models::open_data(run_.plan.model, {.batch = run_.options.batch,
                                                          .worker = *worker_,
                                                          .workers = run_.options.workers,
                                                          .seed = run_.options.seed}));
    return {};
  }

  const TaskRun& run_;
  std::optional<std::uint32_t> worker_;
  std::unique_ptr<models::Data> data_;
};

std::string shard_of(const std::string& task) {
  std::string name;
  for (const auto letter : task.substr(1)) name += letter == '/' || letter == ':' ? '-' : letter;
  return name;
}

Status save(const std::string& folder, const std::string& task, std::uint64_t step,
            const runtime::Variables& variables) {
  storage::Checkpoint checkpoint{.step = step, .tensors = {}};
  for (const auto& [name, variable] : variables.all()) checkpoint.tensors[name] = variable->read();
  if (checkpoint.tensors.empty()) return {};
  return storage::CheckpointFolder(folder).save(shard_of(task), checkpoint);
}

// Tasks that are to run one program have the same.
std::string fingerprint(const JobOptions& options, const JobPlan& plan) {
  Hash hash;
  for (const auto& crossing : plan.partition.crossings)
    hash.take(fmt::format("{} {} {} {} {}", crossing.name, crossing.from, crossing.to,
                          crossing.spec.to_string(), name_of(crossing.protocol)));
  // A file may lie elsewhere on each machine.
  const auto model = options.model.substr(options.model.rfind('/') + 1).substr(0, 100);
  return fmt::format(
      "model {}, batch {}, {}, {}, {} steps, seed {}, rate {}, {}, transport {}, plan {:016x}",
      model, options.batch, options.emulate ? "emulated" : "computed",
      options.synchronous ? "synchronous" : "asynchronous", options.steps, options.seed,
      options.rate, name_of(options.optimizer.kind), name_of(options.transport), hash.value());
}

// What this task's ends of the crossings have done.
std::map<std::uint32_t, runtime::CrossingStats> stats_by_crossing(const graph::Partition& partition,
                                                                  runtime::Rendezvous& rendezvous) {
  std::map<std::uint32_t, runtime::CrossingStats> all;
  for (const auto& crossing : partition.crossings) {
    if (const auto* end = rendezvous.send_end(crossing.id)) all[crossing.id] += end->stats();
    if (const auto* end = rendezvous.receive_end(crossing.id)) all[crossing.id] += end->stats();
  }
  return all;
}

// A server has most to do when the workers wait for it, and then its largest variable alone.
void use_threads(const JobOptions& options, bool worker) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const auto share = worker ? cores / (options.workers + options.servers) : cores * 3 / 4;
  ops::set_threads(options.threads > 0 ? options.threads : std::max(1U, share));
}

}  // namespace

Status run_task(const TaskRun& run, TaskLine& line) {
  const auto& options = run.options;
  auto work = FERRY_TRY(Work::open(run));
  use_threads(options, work.worker());
  // Layers that wait for less than a millisecond are not to wait for the usual slack too.
  if (options.emulate) (void)prctl(PR_SET_TIMERSLACK, 1000);
  StationOptions station_options{options.transport, options.provider, run.secret,
                                 options.secret_file};
  station_options.spin = options.spin;
  if (const auto found = options.places.find(run.task); found != options.places.end())
    station_options.listen = found->second;
  auto station = FERRY_TRY(Station::open(station_options));
  FERRY_TRY(line.say_endpoint(station->endpoint()));
  auto& rendezvous =
      station->meet(run.task, fingerprint(options, run.plan), FERRY_TRY(line.hear_endpoints()));
  runtime::TaskOptions task_options;
  task_options.seed = options.seed;
  task_options.initial = run.initial;
  task_options.registered = station->registered();
  task_options.fetches = work.fetches();
  auto runner = FERRY_TRY(runtime::TaskRunner::open(run.plan.partition, run.task, rendezvous,
                                                    std::move(task_options),
                                                    Deadline::after(options.patience)));
  const auto spin = station->use_kept_spin();
  std::map<std::uint32_t, runtime::CrossingStats> traced;  // in the first step
  const auto begin = now_ns();
  const auto watch = [&](std::uint64_t step, std::span<const tensor::Tensor> fetched) -> Status {
    FERRY_TRY(work.report(step, fetched, static_cast<double>(now_ns() - begin) * 1e-9, line));
    if (step == 1 && options.by_crossing)
      traced = stats_by_crossing(run.plan.partition, rendezvous);
    const auto number = run.first - 1 + step;
    const auto is_due = [number](std::uint64_t every) { return every > 0 && number % every == 0; };
    if (is_due(options.test_every))
      FERRY_TRY(save(run.last, run.task, number, runner->variables()));
    if (!is_due(options.save_every)) return {};
    return save(options.checkpoints, run.task, number, runner->variables());
  };
  FERRY_TRY(runner->run(
      1, options.steps, [&](std::uint64_t step) { return work.feed(step); }, watch));
  // One that is gone ends this; one that is slow, as another worker may be, does not.
  FERRY_TRY(rendezvous.leave(Deadline::after(kLongestJob)));
  const auto last = run.first - 1 + options.steps;
  if (!options.checkpoints.empty())
    FERRY_TRY(save(options.checkpoints, run.task, last, runner->variables()));
  if (options.take_variables) FERRY_TRY(save(run.last, run.task, last, runner->variables()));
  TaskReport report{run.task,
                    rendezvous.stats(),
                    runner->stats(),
                    options.processes ? ops::reorders().count : 0,
                    station->registrations(),
                    {},
                    spin};
  if (options.by_crossing) report.steady = stats_by_crossing(run.plan.partition, rendezvous);
  for (auto& [crossing, stats] : report.steady) stats -= traced[crossing];
  return line.say_end(report);
}

}  // namespace ferry::train
