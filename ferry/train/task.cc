#include <optional>
#include <thread>

#include "ferry/models/batches.h"
#include "ferry/ops/threads.h"
#include "ferry/train/task_internal.h"

namespace ferry::train {
namespace {

constexpr Nanos kMeetPatience = std::chrono::seconds(60);

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

  std::vector<std::string> fetches() const {
    if (!worker_) return {};
    const auto& graph = run_.plan.program.graph;
    const auto& worker = run_.plan.program.workers[*worker_];
    return {graph.node(worker.loss.node).name, graph.node(worker.metrics.at("accuracy").node).name};
  }

  Result<std::vector<runtime::Feed>> feed(std::uint64_t step) {
    if (!worker_) return std::vector<runtime::Feed>();
    const auto batch = batches_->of_step(run_.first - 1 + step);
    return std::vector<runtime::Feed>{{images_, batch.images}, {labels_, batch.labels}};
  }

  Status report(std::uint64_t step, std::span<const tensor::Tensor> fetched, double seconds,
                TaskLine& line) const {
    if (!worker_) return {};
    return line.say_step({.worker = *worker_,
                          .step = run_.first - 1 + step,
                          .loss = fetched[0].elements<float>()[0],
                          .accuracy = fetched[1].elements<float>()[0],
                          .seconds = seconds});
  }

 private:
  explicit Work(const TaskRun& run) : run_(run) {}

  Status open_data() {
    data_ = std::make_unique<models::Images>(
        FERRY_TRY(models::read_fashion_mnist(models::Split::kTrain)));
    auto batches = FERRY_TRY(models::Batches::open(*data_, {.batch = run_.options.batch,
                                                            .worker = *worker_,
                                                            .workers = run_.options.workers,
                                                            .seed = run_.options.seed}));
    batches_.emplace(std::move(batches));
    const auto& inputs = run_.plan.program.workers[*worker_].inputs;
    images_ = run_.plan.program.graph.node(inputs.at("images")).name;
    labels_ = run_.plan.program.graph.node(inputs.at("labels")).name;
    return {};
  }

  const TaskRun& run_;
  std::optional<std::uint32_t> worker_;
  std::unique_ptr<models::Images> data_;
  std::optional<models::Batches> batches_;
  std::string images_;
  std::string labels_;
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

void use_threads(const JobOptions& options) {
  const auto cores = std::max(1U, std::thread::hardware_concurrency());
  const auto tasks = options.workers + options.servers;
  ops::set_threads(options.threads > 0 ? options.threads : std::max(1U, cores / tasks));
}

}  // namespace

Status run_task(const TaskRun& run, TaskLine& line) {
  const auto& options = run.options;
  use_threads(options);
  auto work = FERRY_TRY(Work::open(run));
  auto station = FERRY_TRY(Station::open(options.transport, options.provider, run.secret));
  FERRY_TRY(line.say_endpoint(station->endpoint()));
  auto& rendezvous = station->meet(run.task, FERRY_TRY(line.hear_endpoints()));
  runtime::TaskOptions task_options;
  task_options.seed = options.seed;
  task_options.initial = run.initial;
  task_options.registered = station->registered();
  task_options.fetches = work.fetches();
  auto runner =
      FERRY_TRY(runtime::TaskRunner::open(run.plan.partition, run.task, rendezvous,
                                          std::move(task_options), Deadline::after(kMeetPatience)));
  const auto begin = now_ns();
  const auto watch = [&](std::uint64_t step, std::span<const tensor::Tensor> fetched) -> Status {
    FERRY_TRY(work.report(step, fetched, static_cast<double>(now_ns() - begin) * 1e-9, line));
    const auto number = run.first - 1 + step;
    if (options.save_every == 0 || number % options.save_every != 0) return {};
    return save(options.checkpoints, run.task, number, runner->variables());
  };
  FERRY_TRY(runner->run(
      1, options.steps, [&](std::uint64_t step) { return work.feed(step); }, watch));
  const auto last = run.first - 1 + options.steps;
  if (!options.checkpoints.empty())
    FERRY_TRY(save(options.checkpoints, run.task, last, runner->variables()));
  FERRY_TRY(save(run.last, run.task, last, runner->variables()));
  return line.say_end({run.task, rendezvous.stats(), runner->stats()});
}

}  // namespace ferry::train
