#include <signal.h>

#include "tests/ps/roles.h"

namespace ferry::ps::testing {
namespace {

struct Case {
  const char* provider;
  const char* how;
  std::uint32_t pool;  // few slots: gradients are added up as they come
};

class WorkerDeath : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, WorkerDeath,
                         ::testing::Values(Case{"shm", "none", 192}, Case{"tcp", "none", 192},
                                           Case{"shm", "between", 192}, Case{"shm", "between", 6},
                                           Case{"shm", "before", 6}, Case{"shm", "after", 192},
                                           Case{"shm", "stopped", 6}, Case{"tcp", "between", 192},
                                           Case{"tcp", "between", 6}, Case{"tcp", "before", 6},
                                           Case{"tcp", "after", 6}),
                         [](const auto& each) {
                           return std::string(each.param.provider) + "_" + each.param.how + "_" +
                                  std::to_string(each.param.pool);
                         });

// Two servers, three worker processes; the weights of the others are those of a sequential model in
// which the dead one's step counts for all blocks or for none, to the bit.
TEST_P(WorkerDeath, CountsForAllOrForNone) {
  const auto& what = GetParam();
  // Long enough for workers that live, on a loaded machine; they wait longer than that.
  const Nanos give_up = std::string(what.how) == "stopped" ? 10s * kSlower : 60s;
  Job job(what.provider,
          {.servers = 2, .workers = 3, .block_bytes = 4096, .pool_blocks = what.pool}, 1, {},
          give_up);
  Training training{
      .scheduler = job.scheduler().endpoint(), .provider = what.provider, .how = what.how};
  if (training.how != "none") training.victim = 1;
  std::vector<Process> workers;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    workers.push_back(Process::start(training.arguments(rank)));
  bool anew = false;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    if (rank == training.victim && training.how == "stopped") continue;
    const auto status = workers[rank].wait();
    if (rank == training.victim) {
      EXPECT_EQ(status, 128 + SIGKILL);
      continue;
    }
    EXPECT_TRUE(status == 0 || status == Training::kBegunAnew)
        << "worker " << rank << ": " << status;
    anew = anew || status == Training::kBegunAnew;
  }
  // What went through few slots was added up before the end of the step.
  const bool slots =
      training.how == "before" || (training.how == "between" && training.provider == "tcp");
  EXPECT_EQ(anew, slots && what.pool == 6);
  EXPECT_EQ(job.scheduler().stats().dead, training.how == "none" ? 0U : 1U);
  must(job.scheduler().wait(soon()));
}

TEST(Failure, TooManyDeadEndTheJobEverywhere) {
  Job job("shm", {.workers = 2, .most_dead = 0});
  const Training training{.scheduler = job.scheduler().endpoint(),
                          .provider = "shm",
                          .workers = 2,
                          .victim = 1,
                          .how = "between",
                          .count = 100};
  auto victim = Process::start(training.arguments(1));
  auto worker = job.worker(0);
  const auto a = training.init(worker, soon())[0];
  must(worker.barrier(soon()));
  const std::vector<float> ones(100, 1.0F);
  const auto pushed = push_steps(worker, a, ones, 5);
  const auto waited = worker.barrier(soon());
  const auto scheduled = job.scheduler().wait(soon());
  const auto served = job.server().wait(soon());
  for (const auto& each : {pushed, waited, scheduled, served}) {
    ASSERT_EQ(code_of(each), Code::kAborted);
    EXPECT_EQ(each.error().message(), "1 workers have died, 0 may; the job has ended");
  }
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
}

// Where memory is mapped, too: what a dead server published last is not what the job has.
TEST(Failure, WeightsOfAServerThatDiedAreNotPulled) {
  for (const auto* provider : {"shm", "tcp"}) {
    auto scheduler =
        must(Scheduler::open({{.consistency = Consistency::kAsync}, device_options(provider)}));
    auto server = Process::start({"--role", "serve", scheduler.endpoint(), provider});
    auto worker = must(Worker::open(
        {.scheduler = scheduler.endpoint(), .device = device_options(provider)}, soon()));
    const auto w = must(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
    std::vector<float> out(100);
    const auto bytes = std::as_writable_bytes(std::span(out));
    const std::vector<std::uint64_t> row = {5};
    must(worker.pull_to(w, bytes, soon()));
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(), 128 + SIGKILL);
    EXPECT_TRUE(until([&] { return code_of(worker.pull(w, soon())) == Code::kUnavailable; }));
    EXPECT_EQ(code_of(worker.pull_to(w, bytes, soon())), Code::kUnavailable);
    EXPECT_EQ(code_of(worker.pull_rows(w, row, bytes.first(4), soon())), Code::kUnavailable);
    EXPECT_EQ(code_of(worker.version(w, soon())), Code::kUnavailable);
  }
}

TEST(Failure, AServerThatDiesIsNamed) {
  for (const auto* provider : {"shm", "tcp"}) {
    auto scheduler = must(Scheduler::open({{}, device_options(provider)}));
    auto server = Process::start({"--role", "serve", scheduler.endpoint(), provider});
    auto worker = must(Worker::open(
        {.scheduler = scheduler.endpoint(), .device = device_options(provider)}, soon()));
    const auto w = must(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(100, 1.0F);
    EXPECT_EQ(floats(must(worker.push_pull(w, raw(ones), soon())), 100), ones);
    server.signal(SIGKILL);
    EXPECT_EQ(server.wait(), 128 + SIGKILL);
    EXPECT_EQ(code_of(push_steps(worker, w, ones, 3)), Code::kUnavailable);
    EXPECT_EQ(code_of(scheduler.wait(soon())), Code::kAborted);
  }
}

// Nobody takes the worker's own connection for a cause: what another server says names the one that
// is lost, at the worker and at the server.
TEST(Failure, AServerThatIsLostIsNamedByTheOthers) {
  for (const auto* provider : {"shm", "tcp"}) {
    Job job(provider, {.servers = 2, .workers = 2, .block_bytes = 4096});
    const auto lost = job.server(1).endpoint();
    auto worker = job.worker(0);
    auto other = job.worker(1);
    const auto w = must(worker.init("w", f32({5000}), {}, {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(5000, 1.0F);
    must(worker.push(w, raw(ones), soon()));
    must(worker.end_step(soon()));
    job.kill(1);
    const auto served = job.server(0).wait(soon());
    ASSERT_EQ(code_of(served), Code::kAborted);
    EXPECT_NE(served.error().message().find(lost), std::string::npos) << served.error().message();
    const auto pulled = worker.flush(soon());
    ASSERT_EQ(code_of(pulled), Code::kAborted) << pulled.error().message();
    EXPECT_NE(pulled.error().message().find("server 1 at " + lost), std::string::npos)
        << pulled.error().message();
  }
}

// Its blocks wait for those of worker 0, which has pushed nothing yet.
TEST(Failure, AStepThatIsHalfPushedIsNotEnded) {
  constexpr std::size_t kValues = 20'000;
  Job job("tcp", {.workers = 2, .block_bytes = 4096, .pool_blocks = 2});
  auto first = job.worker(0);
  auto second = job.worker(1);
  const std::vector<float> ones(kValues, 1.0F);
  const auto w = must(second.init("w", f32({kValues}), {}, {UpdateKind::kSum}, soon()));
  const auto x = must(second.init("x", f32({kValues}), {}, {UpdateKind::kSum}, soon()));
  EXPECT_EQ(code_of(second.push(w, raw(ones), Deadline::after(20ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(second.push(x, raw(ones), soon())), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(second.end_step(soon())), Code::kFailedPrecondition);
  must(second.leave(soon()));
  const auto mine = must(first.find("w", soon()));
  EXPECT_EQ(floats(must(first.push_pull(mine, raw(ones), soon())), kValues), ones);
}

TEST(Failure, AWorkerThatLeavesIsMissedByNobody) {
  Job job("shm", {.workers = 2});
  std::thread other([&] {
    auto worker = job.worker(1);
    const auto w = must(worker.init("w", f32({10}), {}, {UpdateKind::kSum}, soon()));
    must(worker.barrier(soon()));
    const std::vector<float> ones(10, 1.0F);
    (void)must(worker.push_pull(w, raw(ones), soon()));
  });
  auto worker = job.worker(0);
  const auto w = must(worker.init("w", f32({10}), {}, {UpdateKind::kSum}, soon()));
  must(worker.barrier(soon()));
  const std::vector<float> ones(10, 1.0F);
  for (int step = 0; step < 5; ++step) (void)must(worker.push_pull(w, raw(ones), soon()));
  other.join();
  EXPECT_EQ(floats(must(worker.pull(w, soon())), 10), std::vector<float>(10, 6.0F));
  must(worker.barrier(soon()));
  EXPECT_EQ(must(worker.members(soon())), std::vector<std::uint32_t>{0});
  must(worker.leave(soon()));
  must(job.scheduler().wait(soon()));
  must(job.server().wait(soon()));
  EXPECT_EQ(job.scheduler().stats().left, 2U);
}

}  // namespace
}  // namespace ferry::ps::testing
