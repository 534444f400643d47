#include "ferry/ps/exchange.h"

#include "tests/ps/kit.h"

namespace ferry::ps::testing {
namespace {

const JobOptions kFree{.servers = 2, .consistency = Consistency::kAsync, .block_bytes = 4096};

class Exchanges : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Provider, Exchanges, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

// Two tensors, to which a worker adds ones.
std::vector<Parameter> make_model(Worker& worker, std::int64_t count = 5000) {
  std::vector<Parameter> parameters;
  for (const auto* name : {"a", "b"})
    parameters.push_back(must(worker.init(name, f32({count}), {}, {UpdateKind::kSum}, soon())));
  return parameters;
}

void write_ones(const ModelBuffers& buffers) {
  for (const auto& gradient : buffers.gradients)
    for (auto& value : gradient.elements<float>()) value = 1;
}

// What all elements of all weights are; a block is never torn, so they are one value each.
float value_of(const ModelBuffers& buffers) {
  const auto first = buffers.weights.front().elements<float>().front();
  for (const auto& weights : buffers.weights)
    for (const auto value : weights.elements<float>())
      if (value != first) throw std::runtime_error("weights of different versions");
  return first;
}

// A pull follows the push unless communication is the longer, which a sleep in each step makes
// unlikely; then step n has all gradients but those of the last two steps.
TEST_P(Exchanges, AStepUsesAllGradientsButTheLastTwo) {
  Job job(GetParam(), kFree);
  auto worker = job.worker();
  const auto model = make_model(worker);
  auto exchange = must(Exchange::open(std::move(worker), model, {.adaptive = false}, soon()));
  for (int step = 1; step <= 8; ++step) {
    if (exchange.stats().on_two_threads == 0) {
      EXPECT_EQ(value_of(exchange.buffers()), static_cast<float>(std::max(0, step - 2)));
    }
    write_ones(exchange.buffers());
    std::this_thread::sleep_for(50ms);
    must(exchange.end_step(soon()));
  }
  const auto stats = exchange.stats();
  EXPECT_EQ(stats.steps, 8U);
  EXPECT_GE(stats.computed, 8 * 50ms);
  EXPECT_GT(stats.staleness, Nanos(0));
  worker = must(exchange.close(soon()));
  EXPECT_EQ(floats(must(worker.pull(model[1], soon())), 5000), std::vector<float>(5000, 8));
  EXPECT_EQ(worker.step(), 8U);
  must(worker.leave(soon()));
}

// Nothing is copied between the buffers of computation and those of communication.
TEST_P(Exchanges, TwoSetsOfBuffersAreUsedInTurn) {
  Job job(GetParam(), kFree);
  auto worker = job.worker();
  const auto model = make_model(worker);
  auto exchange = must(Exchange::open(std::move(worker), model, {}, soon()));
  const auto* first = exchange.buffers().weights.front().data();
  for (int step = 1; step <= 6; ++step) {
    EXPECT_EQ(exchange.buffers().weights.front().data() == first, step % 2 == 1);
    write_ones(exchange.buffers());
    must(exchange.end_step(soon()));
  }
  worker = must(exchange.close(soon()));
  // Where servers map this memory, they have read the gradients in it.
  if (GetParam() == std::string("shm")) {
    EXPECT_EQ(worker.stats().pushed_blocks, 2 * 5U);  // the first values
    EXPECT_GT(worker.stats().pushed_in_place, 0U);
  }
}

// Without any computation, communication is the longer; nothing is lost or counted twice.
TEST_P(Exchanges, SeveralWorkersWithPushAndPullAtTheSameTime) {
  auto options = kFree;
  options.workers = 3;
  Job job(GetParam(), options);
  constexpr int kSteps = 40;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < options.workers; ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto worker = job.worker(rank);
        const auto model = make_model(worker, 100'000);
        must(worker.barrier(soon()));
        auto exchange = must(Exchange::open(std::move(worker), model, {}, soon()));
        float before = 0;
        for (int step = 1; step <= kSteps; ++step) {
          const auto now = exchange.buffers().weights.front().elements<float>().front();
          EXPECT_GE(now, before);
          before = now;
          write_ones(exchange.buffers());
          must(exchange.end_step(soon()));
        }
        EXPECT_GT(exchange.stats().on_two_threads, 0U);
        worker = must(exchange.close(soon()));
        must(worker.barrier(soon()));
        EXPECT_EQ(floats(must(worker.pull(model[0], soon())), 100'000),
                  std::vector<float>(100'000, kSteps * 3));
        must(worker.leave(soon()));
      } catch (const std::exception& problem) {
        ADD_FAILURE() << "worker " << rank << ": " << problem.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

// Versions that others publish while a step is computed are counted.
TEST_P(Exchanges, StalenessCountsVersionsOfOthers) {
  auto options = kFree;
  options.workers = 2;
  Job job(GetParam(), options);
  auto worker = job.worker();
  auto other = job.worker();
  const auto model = make_model(worker);
  const auto same = make_model(other);
  auto exchange = must(Exchange::open(std::move(worker), model, {}, soon()));
  const std::vector<float> ones(5000, 1);
  for (int each = 0; each < 5; ++each) {
    must(other.push(same[0], raw(ones), soon()));
    must(other.flush(soon()));
  }
  must(exchange.end_step(soon()));  // the weights of step 2 were pulled before all these
  must(exchange.end_step(soon()));
  must(exchange.close(soon()));
  EXPECT_GE(exchange.stats().stale_versions, 5U);
  EXPECT_EQ(code_of(exchange.end_step(soon())), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(exchange.close(soon())), Code::kFailedPrecondition);
}

// Both threads find out that a server is gone, and go on with the second copies.
TEST_P(Exchanges, AServerThatIsGoneHasLeftCopies) {
  auto options = kFree;
  options.replicas = 2;
  Job job(GetParam(), options);
  auto worker = job.worker();
  const auto model = make_model(worker);
  auto exchange = must(Exchange::open(std::move(worker), model, {}, soon()));
  for (int step = 0; step < 200; ++step) {
    if (step == 50) job.kill(0);
    write_ones(exchange.buffers());
    must(exchange.end_step(soon()));
  }
  worker = must(exchange.close(soon()));
  EXPECT_EQ(worker.stats().servers_gone, 1U);
  for (const auto parameter : model)
    EXPECT_EQ(floats(must(worker.pull(parameter, soon())), 5000), std::vector<float>(5000, 200));
  must(worker.leave(soon()));
}

TEST_P(Exchanges, AServerThatIsGoneEndsTheExchange) {
  auto job = std::make_unique<Job>(GetParam(), kFree);
  auto worker = job->worker();
  const auto model = make_model(worker);
  auto exchange = must(Exchange::open(std::move(worker), model, {.patience = 5s}, soon()));
  must(exchange.end_step(soon()));
  job.reset();
  Status ended;
  for (int step = 0; step < 10 && ended; ++step) ended = exchange.end_step(soon());
  EXPECT_FALSE(ended);
  EXPECT_EQ(code_of(exchange.end_step(soon())), code_of(ended));
  EXPECT_EQ(code_of(exchange.close(soon())), code_of(ended));
}

TEST_P(Exchanges, Refusals) {
  Job in_step(GetParam(), {});
  auto worker = in_step.worker();
  const auto model = make_model(worker);
  EXPECT_EQ(code_of(Exchange::open(std::move(worker), model, {}, soon())),
            Code::kFailedPrecondition);
  Job job(GetParam(), kFree);
  EXPECT_EQ(code_of(Exchange::open(job.worker(), {}, {}, soon())), Code::kInvalidArgument);
}

TEST_P(Exchanges, UnknownParameter) {
  Job job(GetParam(), kFree);
  EXPECT_EQ(code_of(Exchange::open(job.worker(), std::vector<Parameter>{7}, {}, soon())),
            Code::kNotFound);
}

}  // namespace
}  // namespace ferry::ps::testing
