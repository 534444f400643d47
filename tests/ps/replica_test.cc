#include <signal.h>

#include <algorithm>

#include "tests/ps/roles.h"

namespace ferry::ps::testing {
namespace {

struct Loss {
  const char* provider;
  Consistency consistency;
  int signal;          // what the server gets; 0: nothing
  std::uint32_t pool;  // few slots: gradients are added up as they come
};

class ServerLoss : public ::testing::TestWithParam<Loss> {};

std::string name_of_loss(const ::testing::TestParamInfo<Loss>& each) {
  const auto& loss = each.param;
  const auto* consistency = loss.consistency == Consistency::kSync      ? "sync"
                            : loss.consistency == Consistency::kBounded ? "bounded"
                                                                        : "async";
  const auto* signal = loss.signal == 0 ? "none" : loss.signal == SIGKILL ? "killed" : "paused";
  return fmt::format("{}_{}_{}_{}", loss.provider, consistency, signal, loss.pool);
}

INSTANTIATE_TEST_SUITE_P(All, ServerLoss,
                         ::testing::Values(Loss{"shm", Consistency::kSync, 0, 192},
                                           Loss{"shm", Consistency::kSync, SIGKILL, 192},
                                           Loss{"shm", Consistency::kSync, SIGKILL, 6},
                                           Loss{"tcp", Consistency::kSync, SIGKILL, 6},
                                           Loss{"shm", Consistency::kSync, SIGSTOP, 6},
                                           Loss{"tcp", Consistency::kSync, SIGSTOP, 192},
                                           Loss{"shm", Consistency::kAsync, SIGKILL, 192},
                                           Loss{"tcp", Consistency::kAsync, SIGKILL, 6},
                                           Loss{"shm", Consistency::kAsync, SIGSTOP, 6},
                                           Loss{"tcp", Consistency::kBounded, SIGKILL, 192},
                                           Loss{"shm", Consistency::kBounded, SIGKILL, 6},
                                           Loss{"tcp", Consistency::kBounded, SIGSTOP, 6}),
                         name_of_loss);

// Three server processes with two copies of each block, two worker processes. One server is killed,
// or hangs, in the middle of a step. Workers go on, and judge the weights: in kSync they are those
// of a sequential model to the bit, else the sum of all that was pushed. A server that hung and
// comes back finds that it is not needed any more.
TEST_P(ServerLoss, NobodyNoticesInTheWeights) {
  const auto& loss = GetParam();
#if defined(__SANITIZE_THREAD__)
  if (loss.consistency != Consistency::kSync && std::string(loss.provider) == "tcp")
    GTEST_SKIP() << "reads of what changes are meant to race, and are read again";
  if (loss.signal == SIGSTOP) GTEST_SKIP() << "servers that go on are taken for such that hang";
#endif
  auto scheduler = must(Scheduler::open({{.servers = 3,
                                          .workers = 2,
                                          .consistency = loss.consistency,
                                          .staleness = 1,
                                          .block_bytes = 4096,
                                          .pool_blocks = loss.pool,
                                          .replicas = 2},
                                         device_options(loss.provider)}));
  std::vector<Process> servers;
  for (int each = 0; each < 3; ++each)
    servers.push_back(Process::start({"--role", "serve", scheduler.endpoint(), loss.provider}));
  Training training{.scheduler = scheduler.endpoint(), .provider = loss.provider, .workers = 2};
  training.role = loss.consistency == Consistency::kSync ? "train" : "add";
  training.steps = loss.signal == SIGSTOP ? 50 : 20;
  training.victim_step = 7;
  if (loss.signal != 0) training.hit = servers[1].pid();
  training.signal = loss.signal;
  std::vector<Process> workers;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    workers.push_back(Process::start(training.arguments(rank)));
  if (loss.signal == SIGSTOP) {
    while (scheduler.stats().servers_gone == 0) std::this_thread::sleep_for(5ms);
    servers[1].signal(SIGCONT);
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(workers[rank].wait(), 0) << "worker " << rank;
  must(scheduler.wait(soon()));
  EXPECT_EQ(scheduler.stats().servers_gone, loss.signal == 0 ? 0U : 1U);
  EXPECT_EQ(scheduler.stats().dead, 0U);
  const int lost = loss.signal == 0         ? 0
                   : loss.signal == SIGKILL ? 128 + SIGKILL
                                            : kServerEnded + static_cast<int>(Code::kUnavailable);
  for (std::size_t each = 0; each < 3; ++each)
    EXPECT_EQ(servers[each].wait(), each == 1 ? lost : 0) << "server " << each;
}

// One worker, steps of a sum; what it has is compared after each.
class Adder {
 public:
  explicit Adder(Worker& worker)
      : worker_(worker),
        w_(must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()))) {}

  Status step() {
    ++steps_;
    const std::vector<float> ones(kCount, 1.0F);
    auto pulled = worker_.push_pull(w_, raw(ones), soon());
    if (!pulled) return tl::unexpected<Error>(pulled.error());
    EXPECT_EQ(floats(*pulled, kCount), std::vector<float>(kCount, steps_));
    return {};
  }

 private:
  static constexpr std::size_t kCount = 20000;
  Worker& worker_;
  Parameter w_;
  float steps_ = 0;
};

class Replicas : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, Replicas, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Replicas, ServersThatAreNotNeighboursMayAllGo) {
  Job job(GetParam(), {.servers = 4, .block_bytes = 4096, .replicas = 2}, 2);
  auto worker = job.worker();
  Adder adder(worker);
  for (int step = 0; step < 12; ++step) {
    if (step == 3) job.kill(1);
    if (step == 8) job.kill(3);
    must(adder.step());
  }
  EXPECT_EQ(worker.stats().servers_gone, 2U);
  must(worker.leave(soon()));
  must(job.scheduler().wait(soon()));
  EXPECT_EQ(job.scheduler().stats().servers_gone, 2U);
}

TEST_P(Replicas, BothCopiesGoneAreNamed) {
  Job job(GetParam(), {.servers = 3, .block_bytes = 4096, .replicas = 2});
  const std::vector<std::string> places = {job.server(0).endpoint(), job.server(1).endpoint()};
  auto worker = job.worker();
  Adder adder(worker);
  must(adder.step());
  job.kill(0);
  must(adder.step());
  job.kill(1);
  Status status;
  for (int step = 0; step < 3 && status; ++step) status = adder.step();
  ASSERT_EQ(code_of(status), Code::kAborted) << status.error().message();
  const auto ended = job.scheduler().wait(soon());
  ASSERT_EQ(code_of(ended), Code::kAborted);
  for (const auto& place : places) {
    EXPECT_NE(status.error().message().find(place), std::string::npos) << status.error().message();
    EXPECT_NE(ended.error().message().find(place), std::string::npos) << ended.error().message();
  }
}

// Joining, new tensors, memory and rows, all after a server has gone.
TEST_P(Replicas, TheJobIsWholeAfterATakeover) {
  constexpr std::size_t kRows = 3000;
  Job job(GetParam(), {.servers = 3, .workers = 2, .block_bytes = 4096, .replicas = 2});
  auto first = job.worker(0);
  const auto a = must(first.init("a", f32({kRows, 4}), {}, {UpdateKind::kSum}, soon()));
  job.kill(2);
  while (job.scheduler().stats().servers_gone == 0) std::this_thread::sleep_for(1ms);
  auto second = job.worker(1);
  const auto b = must(first.init("b", f32({kRows, 4}), {}, {UpdateKind::kSum}, soon()));
  struct Each {
    Worker& worker;
    Parameter a;
    Parameter b;
    tensor::Tensor place;
  };
  std::vector<Each> each;
  each.push_back({first, a, b, must(first.allocate(f32({kRows, 4}), soon()))});
  each.push_back({second, must(second.find("a", soon())), must(second.find("b", soon())),
                  must(second.allocate(f32({kRows, 4}), soon()))});
  const std::vector<std::uint64_t> rows = {5, 2999, 1500};
  const std::vector<float> values(12, 7.0F);
  for (auto& one : each) {
    std::fill(one.place.elements<float>().begin(), one.place.elements<float>().end(), 1.0F);
    must(one.worker.push(one.a, one.place.bytes(), soon()));
    must(one.worker.push_rows(one.b, rows, raw(values), soon()));
    must(one.worker.end_step(soon()));
  }
  for (auto& one : each) {
    EXPECT_EQ(floats(must(one.worker.pull(one.a, soon())), kRows * 4),
              std::vector<float>(kRows * 4, 2.0F));
    std::vector<float> got(12);
    must(one.worker.pull_rows(one.b, rows, std::as_writable_bytes(std::span(got)), soon()));
    EXPECT_EQ(got, std::vector<float>(12, 14.0F));
  }
}

// A worker dies after a server has: its step counts for all blocks or for none, on what is left.
TEST_P(Replicas, AWorkerMayDieAfterAServer) {
  Job job(GetParam(),
          {.servers = 3, .workers = 3, .block_bytes = 4096, .pool_blocks = 6, .replicas = 2});
  job.kill(0);
  while (job.scheduler().stats().servers_gone == 0) std::this_thread::sleep_for(1ms);
  Training training{.scheduler = job.scheduler().endpoint(), .provider = GetParam()};
  training.victim = 1;
  training.how = "before";
  std::vector<Process> workers;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    workers.push_back(Process::start(training.arguments(rank)));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto status = workers[rank].wait();
    EXPECT_EQ(status, rank == 1 ? 128 + SIGKILL : Training::kBegunAnew) << "worker " << rank;
  }
  must(job.scheduler().wait(soon()));
}

TEST(ReplicaOptions, ThatCannotBe) {
  const auto code = [](JobOptions options) {
    return code_of(Scheduler::open({options, device_options("shm")}));
  };
  EXPECT_EQ(code({.servers = 1, .replicas = 2}), Code::kOutOfRange);
  EXPECT_EQ(code({.servers = 3, .replicas = 3}), Code::kOutOfRange);
  EXPECT_EQ(code({.servers = 3, .replicas = 0}), Code::kOutOfRange);
  auto scheduler = must(Scheduler::open({{.servers = 2, .replicas = 2}, device_options("shm")}));
  ServerOptions options{.scheduler = scheduler.endpoint(), .device = device_options("shm")};
  auto server = must(Server::open(options, soon()));
  options.shards = 2;
  EXPECT_EQ(code_of(Server::open(options, soon())), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::ps::testing
