#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "bench/models/measure.h"
#include "bench/ps/crew.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_time.h"
#include "ferry/cli/common/stats.h"
#include "ferry/graph/gradient.h"
#include "ferry/models/batches.h"
#include "ferry/ops/initial.h"
#include "ferry/ops/threads.h"
#include "ferry/runtime/executor.h"

// MLP-2048 on Fashion-MNIST: workers compute gradients of their shares of a batch, servers update.
// One process that trains alone with the whole batch is the limit, and says what comes out.

namespace ferry::bench {
namespace {

constexpr const char* kTaught = "mlp-2048";
constexpr std::int64_t kWholeBatch = 256;  // of all workers together
constexpr double kRate = 0.02;
constexpr double kMomentum = 0.9;
constexpr std::uint64_t kDataSeed = 1;
// Of the loss: gradients are added up in another order.
constexpr double kRounding = 1e-4;

struct TrainingWay {
  const char* provider;
  std::uint32_t servers;
  std::uint32_t workers;

  std::string name() const {
    return fmt::format("{}, {} server{}", provider, servers, servers == 1 ? "" : "s");
  }
};

std::vector<TrainingWay> training_ways(bool quick) {
  std::vector<TrainingWay> ways;
  for (const auto* provider : {"shm", "tcp"})
    for (const std::uint32_t servers : {1U, 2U})
      for (const std::uint32_t workers : {2U, 4U, 8U})
        if (!quick || servers == 1) ways.push_back({provider, servers, workers});
  return ways;
}

// What one worker saw, or all of them, or the one that is alone.
struct Learnt {
  double step_seconds = 0;
  double computing_seconds = 0;  // of a step
  double loss = 0;               // in the last step
  double accuracy = 0;
};

unsigned all_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// The model in one worker: a graph that ends in gradients, whose variables are pulled.
class Learner {
 public:
  static Result<std::unique_ptr<Learner>> open(ps::Worker& worker, const models::Images& images) {
    std::unique_ptr<Learner> learner(new Learner(worker));
    FERRY_TRY(learner->build());
    const auto workers = worker.job().workers;
    learner->batches_.emplace(
        FERRY_TRY(models::Batches::open(images, {.batch = kWholeBatch / workers,
                                                 .worker = worker.rank(),
                                                 .workers = workers,
                                                 .seed = kDataSeed})));
    return learner;
  }

  Result<Learnt> train(std::uint64_t steps) {
    Learnt all;
    std::int64_t begin = 0;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      if (cli::InterruptGuard::interrupted()) return fail(Code::kCancelled, "interrupted");
      const auto begun = now_ns();
      const auto batch = batches_->of_step(step);
      const std::array<runtime::Feed, 2> feeds = {
          {{"images", batch.images}, {"labels", batch.labels}}};
      const auto fetched = FERRY_TRY(executor_->run(step, feeds, BenchCrew::in_time()));
      const auto computed = now_ns();
      FERRY_TRY(exchange(std::span(fetched).subspan(2)));
      if (step == cli::kWarmSteps) begin = now_ns();
      if (step > cli::kWarmSteps)
        all.computing_seconds += static_cast<double>(computed - begun) / 1e9;
      all.loss = fetched[0].elements<float>()[0];
      all.accuracy = fetched[1].elements<float>()[0];
    }
    const auto timed = static_cast<double>(steps - cli::kWarmSteps);
    all.step_seconds = static_cast<double>(now_ns() - begin) / 1e9 / timed;
    all.computing_seconds /= timed;
    return all;
  }

 private:
  struct Weight {
    ps::Parameter parameter = 0;
    runtime::Variable* variable = nullptr;
    tensor::Tensor gradient;  // in memory that servers of this host may map
  };

  explicit Learner(ps::Worker& worker) : worker_(worker) {}

  Status build() {
    const auto model =
        FERRY_TRY(models::make_model(kTaught, {.batch = kWholeBatch / worker_.job().workers}));
    graph::Builder builder(graph_);
    const auto tower = model.tower(builder);
    std::vector<graph::Expr> trained;
    for (const auto& node : graph_.nodes())
      if (node.op->name == "Variable") trained.push_back({&builder, {node.id, 0}});
    std::vector<graph::Output> fetches = {tower.loss.output(),
                                          tower.metrics.at("accuracy").output()};
    for (const auto& gradient : graph::gradients(tower.loss, trained))
      fetches.push_back(gradient.output());
    FERRY_TRY(Status(builder.status()));
    for (const auto& one : trained) FERRY_TRY(add_weight(graph_.node(one.output().node)));
    executor_ = FERRY_TRY(
        runtime::Executor::open(graph_, variables_, nullptr, {.fetches = std::move(fetches)}));
    return {};
  }

  Status add_weight(const graph::Node& node) {
    const auto value = FERRY_TRY(ops::initial_value(node, kDataSeed));
    const ps::Update update{
        .kind = ps::UpdateKind::kMomentum, .rate = kRate, .momentum = kMomentum};
    Weight weight;
    weight.variable = FERRY_TRY(variables_.add(node.name));
    FERRY_TRY(weight.variable->assign(value, nullptr, BenchCrew::in_time()));
    weight.parameter = FERRY_TRY(
        worker_.init(node.name, value.spec(), value.bytes(), update, BenchCrew::in_time()));
    weight.gradient = FERRY_TRY(worker_.allocate(value.spec(), BenchCrew::in_time()));
    weights_.push_back(std::move(weight));
    return {};
  }

  Status exchange(std::span<const tensor::Tensor> gradients) {
    const auto in_time = BenchCrew::in_time();
    std::vector<ps::Loan> loans;
    for (std::size_t each = 0; each < weights_.size(); ++each) {
      const auto& weight = weights_[each];
      const auto from = gradients[each].bytes();
      std::memcpy(weight.gradient.data(), from.data(), from.size());
      loans.push_back(
          FERRY_TRY(worker_.lend_gradient(weight.parameter, weight.gradient.bytes(), in_time)));
    }
    FERRY_TRY(worker_.end_step(in_time));
    for (const auto& weight : weights_) {
      const auto memory = FERRY_TRY(weight.variable->begin_update(in_time));
      const auto pulled = worker_.pull_to(weight.parameter, memory.bytes(), in_time);
      FERRY_TRY(weight.variable->end_update(pulled.has_value()));
      FERRY_TRY(Status(pulled));
    }
    return {};
  }

  ps::Worker& worker_;
  graph::Graph graph_;
  runtime::Variables variables_;
  std::vector<Weight> weights_;
  std::unique_ptr<runtime::Executor> executor_;
  std::optional<models::Batches> batches_;
};

Result<Learnt> train_one(const BenchCrew& crew, const models::Images& images, std::uint64_t steps) {
  auto worker = FERRY_TRY(crew.worker());
  const auto learner = FERRY_TRY(Learner::open(worker, images));
  auto trained = FERRY_TRY(learner->train(steps));
  FERRY_TRY(worker.leave(BenchCrew::in_time()));
  return trained;
}

Result<Learnt> train_together(const PsPlan& plan, const TrainingWay& way,
                              const models::Images& images, std::uint64_t steps) {
  const ps::JobOptions job{.servers = way.servers, .workers = way.workers, .mean = true};
  const auto crew = FERRY_TRY(BenchCrew::start(plan, way.provider, job));
  ops::set_threads(std::max(1U, all_cores() / way.workers));
  std::vector<Result<Learnt>> ended(way.workers);
  {
    std::vector<std::jthread> threads;
    threads.reserve(ended.size());
    for (auto& one : ended) threads.emplace_back([&] { one = train_one(crew, images, steps); });
  }
  Learnt all;
  for (auto& one : ended) {
    const auto trained = FERRY_TRY(std::move(one));
    all.step_seconds = std::max(all.step_seconds, trained.step_seconds);
    all.computing_seconds += trained.computing_seconds / way.workers;
    all.loss += trained.loss / way.workers;
    all.accuracy += trained.accuracy / way.workers;
  }
  return all;
}

Result<Learnt> train_alone(std::uint64_t steps) {
  train::JobOptions job;
  job.model = kTaught;
  job.batch = kWholeBatch;
  job.workers = 1;
  job.servers = 0;
  job.optimizer = graph::Optimizer::with_momentum(kMomentum);
  job.rate = kRate;
  job.steps = steps;
  job.seed = kDataSeed;
  job.threads = all_cores();
  job.processes = false;  // threads of kernels do not get on with a process that forks later
  job.take_variables = false;
  const auto timed = FERRY_TRY(cli::time_job(job));
  const auto& last = timed.report.last.at(0);
  return Learnt{timed.step_seconds, timed.step_seconds, last.loss.value_or(0),
                last.accuracy.value_or(0)};
}

// All turns of one way.
struct TrainingTurns {
  std::vector<double> step_seconds;
  std::vector<double> communicating;
  std::vector<double> of_alone;
  Learnt last;

  void add(const Learnt& trained, const Learnt& alone) {
    step_seconds.push_back(trained.step_seconds);
    communicating.push_back(1 - trained.computing_seconds / trained.step_seconds);
    of_alone.push_back(alone.step_seconds / trained.step_seconds);
    last = trained;
  }
  PsTraining result(std::string way, std::uint32_t workers) const {
    const auto seconds = cli::median(step_seconds);
    return {std::move(way),
            workers,
            static_cast<double>(kWholeBatch) / seconds,
            seconds,
            cli::median(communicating),
            cli::median(of_alone),
            last.loss,
            last.accuracy};
  }
};

Status expect_same_loss(const TrainingWay& way, const Learnt& trained, const Learnt& alone) {
  if (std::abs(trained.loss - alone.loss) <= kRounding * alone.loss) return {};
  return fail(Code::kDataLoss, "{}, {} workers: the loss is {} in the end, that of one alone {}",
              way.name(), way.workers, trained.loss, alone.loss);
}

}  // namespace

Result<std::vector<PsTraining>> measure_training(const PsPlan& plan) {
  const auto images = models::read_fashion_mnist(models::Split::kTrain);
  if (!images)
    return fail(images.error().code(), "{}; without it leave `training` out of --parts",
                images.error().message());
  const auto ways = training_ways(plan.quick);
  const std::uint64_t steps = plan.quick ? 10 : 12;
  const int turns = std::max(1, plan.turns / 3);
  TrainingTurns alone;
  std::vector<TrainingTurns> together(ways.size());
  for (int turn = 1; turn <= turns; ++turn) {
    fmt::print(stderr, "training, turn {} of {}\n", turn, turns);
    const auto limit = FERRY_TRY(train_alone(steps));
    alone.add(limit, limit);
    for (std::size_t each = 0; each < ways.size(); ++each) {
      const auto trained = FERRY_TRY(train_together(plan, ways[each], *images, steps));
      FERRY_TRY(expect_same_loss(ways[each], trained, limit));
      together[each].add(trained, limit);
    }
  }
  std::vector<PsTraining> all = {alone.result("one process alone", 0)};
  for (std::size_t each = 0; each < ways.size(); ++each)
    all.push_back(together[each].result(ways[each].name(), ways[each].workers));
  return all;
}

}  // namespace ferry::bench
