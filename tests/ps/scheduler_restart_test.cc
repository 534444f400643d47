#include <signal.h>

#include <filesystem>
#include <fstream>

#include "ferry/ps/wire/protocol_version_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "tests/ps/roles.h"

namespace ferry::ps::testing {
namespace {

namespace fs = std::filesystem;

// Scheduler, servers and workers as processes. Worker 1 stops in the middle of a step, or dies
// there, so that what happens then happens at the same place of the training each time.
class RestartedJob {
 public:
  RestartedJob(const std::string& provider, std::uint32_t servers, std::uint32_t replicas,
               const std::string& how) {
    scheduling_.folder = folder_.path();
    scheduling_.job = {.servers = servers,
                       .workers = 3,
                       .block_bytes = 4096,
                       .pool_blocks = 6,
                       .replicas = replicas};
    scheduler_.emplace(scheduling_.start());
    training_.scheduler = scheduling_.endpoint();
    training_.provider = provider;
    training_.how = how;
    training_.victim = 1;
    for (std::uint32_t each = 0; each < servers; ++each)
      servers_.push_back(
          Process::start({"--role", "serve", training_.scheduler, training_.provider}));
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      workers_.push_back(Process::start(training_.arguments(rank)));
    if (how == "stopped" || how == "paused") workers_[1].wait_for_stop();
  }

  // How it ended: a job that has not stopped may be over by then.
  int kill_scheduler() {
    scheduler_->signal(SIGKILL);
    const auto status = scheduler_->wait();
    scheduler_.reset();
    return status;
  }
  void restart_scheduler() { scheduler_.emplace(scheduling_.start()); }
  Process& worker(std::size_t rank) { return workers_[rank]; }
  Process& server(std::size_t index) { return servers_[index]; }

  // How they end; the workers that are left judge the weights.
  void expect_end(std::optional<std::size_t> dead_worker, std::optional<std::size_t> dead_server) {
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      if (rank == dead_worker) continue;
      const auto status = workers_[rank].wait(Deadline::after(60s));
      EXPECT_TRUE(status == 0 || status == Training::kBegunAnew) << rank << ": " << status;
    }
    if (scheduler_) {
      EXPECT_EQ(scheduler_->wait(), 0);
    }
    for (std::size_t index = 0; index < servers_.size(); ++index)
      EXPECT_EQ(servers_[index].wait(), index == dead_server ? 128 + SIGKILL : 0) << index;
  }

 private:
  Folder folder_;
  Scheduling scheduling_;
  Training training_;
  std::optional<Process> scheduler_;
  std::vector<Process> servers_;
  std::vector<Process> workers_;
};

class SchedulerRestart : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, SchedulerRestart, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(SchedulerRestart, TrainingGoesOnAsIfNothingHadBeen) {
  RestartedJob job(GetParam(), 2, 1, "paused");
  EXPECT_EQ(job.kill_scheduler(), 128 + SIGKILL);
  job.worker(1).signal(SIGCONT);
  job.restart_scheduler();
  job.expect_end({}, {});
}

TEST_P(SchedulerRestart, AWorkerDiesMeanwhile) {
  RestartedJob job(GetParam(), 2, 1, "stopped");
  EXPECT_EQ(job.kill_scheduler(), 128 + SIGKILL);
  job.worker(1).signal(SIGKILL);
  EXPECT_EQ(job.worker(1).wait(), 128 + SIGKILL);
  job.restart_scheduler();
  job.expect_end(1, {});
}

// Whatever the scheduler has told of it by then, and to whom, the next one says the same.
TEST_P(SchedulerRestart, AWorkerDiesJustBefore) {
  RestartedJob job(GetParam(), 2, 1, "before");
  EXPECT_EQ(job.worker(1).wait(), 128 + SIGKILL);
  const auto status = job.kill_scheduler();
  if (status != 0) job.restart_scheduler();
  job.expect_end(1, {});
  EXPECT_TRUE(status == 0 || status == 128 + SIGKILL) << status;
}

TEST_P(SchedulerRestart, AServerDiesMeanwhile) {
  RestartedJob job(GetParam(), 3, 2, "paused");
  EXPECT_EQ(job.kill_scheduler(), 128 + SIGKILL);
  job.server(1).signal(SIGKILL);
  job.worker(1).signal(SIGCONT);
  job.restart_scheduler();
  job.expect_end({}, 1);
}

// Threads of this process; a scheduler that is destroyed tells nobody.
class StateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scheduling_.folder = folder_.path();
    scheduling_.job = {.workers = 2};
    scheduling_.away = 20s;
  }
  void open() { scheduler_.emplace(must(Scheduler::open(scheduling_.options()))); }
  void reopen() {
    scheduler_.reset();
    open();
  }
  Server server() const {
    return must(Server::open({.scheduler = scheduler_->endpoint(), .device = device_options("shm")},
                             soon()));
  }
  Worker worker(std::uint32_t rank) const {
    return must(Worker::open(
        {.scheduler = scheduler_->endpoint(), .device = device_options("shm"), .rank = rank},
        soon()));
  }
  Result<Scheduler> another() const { return Scheduler::open(scheduling_.options()); }

  Folder folder_;
  Scheduling scheduling_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(StateTest, TheNextOneKnowsWhatTheOneBeforeKnew) {
  open();
  const auto endpoint = scheduler_->endpoint();
  auto server = this->server();
  auto first = worker(0);
  const std::vector<float> values(100, 2.0F);
  const auto w = must(first.init("w", f32({100}), raw(values), {UpdateKind::kSum}, soon()));
  reopen();
  EXPECT_EQ(scheduler_->endpoint(), endpoint);
  EXPECT_EQ(must(first.members(soon())), std::vector<std::uint32_t>{0});
  EXPECT_EQ(must(first.names(soon())), std::vector<std::string>{"w"});
  // New ones come as before, and new tensors do not get in the way of old ones.
  auto second = worker(1);
  EXPECT_EQ(must(second.init("w", f32({100}), {}, {UpdateKind::kSum}, soon())), 0U);
  EXPECT_EQ(floats(must(second.pull(0, soon())), 100), values);
  const auto other = must(second.init("other", f32({100}), {}, {UpdateKind::kSum}, soon()));
  EXPECT_EQ(floats(must(second.pull(other, soon())), 100), std::vector<float>(100));
  EXPECT_EQ(floats(must(first.pull(w, soon())), 100), values);
  EXPECT_EQ(scheduler_->stats().tensors, 2U);
  must(second.leave(soon()));
  reopen();
  EXPECT_EQ(must(first.members(soon())), std::vector<std::uint32_t>{0});
  EXPECT_TRUE(fs::exists(must(first.snapshot(folder_.path(), soon()))));
  must(first.leave(soon()));
  must(scheduler_->wait(soon()));
  must(server.wait(soon()));
  EXPECT_EQ(scheduler_->stats().left, 2U);
  EXPECT_EQ(scheduler_->stats().dead, 0U);
}

TEST_F(StateTest, CallsWaitForTheNextOne) {
  open();
  auto server = this->server();
  auto first = worker(0);
  auto second = worker(1);
  for (int round = 0; round < 2; ++round) {
    // One waits at the barrier while the scheduler goes; one comes to it while there is none.
    std::thread waits([&] { EXPECT_EQ(code_of(first.barrier(soon())), Code::kOk); });
    std::this_thread::sleep_for(20ms);
    scheduler_.reset();
    std::thread comes([&] { EXPECT_EQ(code_of(second.barrier(soon())), Code::kOk); });
    std::this_thread::sleep_for(20ms);
    open();
    waits.join();
    comes.join();
  }
  scheduler_.reset();
  EXPECT_EQ(code_of(first.barrier(Deadline::after(50ms))), Code::kDeadlineExceeded);
  open();
}

TEST_F(StateTest, AJobThatIsOverLeavesRoomForAnother) {
  for (int round = 0; round < 2; ++round) {
    open();
    auto server = this->server();
    auto first = worker(0);
    auto second = worker(1);
    must(first.leave(soon()));
    must(second.leave(soon()));
    must(scheduler_->wait(soon()));
    must(server.wait(soon()));
    scheduler_.reset();
  }
}

TEST_F(StateTest, ASchedulerThatDoesNotComeBack) {
  scheduling_.away = 500ms;
  open();
  auto server = this->server();
  auto first = worker(0);
  scheduler_.reset();
  const auto waited = first.barrier(soon());
  EXPECT_EQ(code_of(waited), Code::kUnavailable);
  EXPECT_NE(waited.error().message().find("was not back"), std::string::npos)
      << waited.error().message();
  const auto ended = server.wait(soon());
  EXPECT_EQ(code_of(ended), Code::kUnavailable);
  EXPECT_NE(ended.error().message().find("was not back"), std::string::npos)
      << ended.error().message();
}

// Nobody listens where the server was: the job ends, and so says its state.
TEST_F(StateTest, AServerThatDoesNotComeBack) {
  open();
  std::optional<Server> server(this->server());
  std::optional<Worker> first(worker(0));
  scheduler_.reset();
  server.reset();
  open();
  EXPECT_EQ(code_of(first->barrier(soon())), Code::kAborted);
  EXPECT_EQ(code_of(scheduler_->wait(soon())), Code::kAborted);
  first.reset();
  scheduler_.reset();
  const auto again = another();
  EXPECT_EQ(code_of(again), Code::kAborted);
  EXPECT_NE(again.error().message().find("remove it"), std::string::npos)
      << again.error().message();
}

TEST_F(StateTest, OthersCannotTakeAPlace) {
  open();
  auto server = this->server();
  auto first = worker(0);
  reopen();
  auto device = must(fabric::Device::open(control_options(device_options("tcp"))));
  auto client = must(RpcClient::connect(device, scheduler_->endpoint(), soon()));
  for (const auto what : {Ask::kBackServer, Ask::kBackWorker})
    for (const std::uint32_t who : {0U, 1U, 7U}) {
      Bytes body;
      bootstrap::Encoder out(body);
      put_protocol_version(out);
      out.u32(who).u64(12345);
      EXPECT_EQ(code_of(client->call(what, body, soon())), Code::kPermissionDenied) << who;
    }
  EXPECT_EQ(must(first.members(soon())), std::vector<std::uint32_t>{0});
}

TEST_F(StateTest, StatesThatCannotBe) {
  open();
  auto server = this->server();
  auto first = worker(0);
  EXPECT_EQ(code_of(another()), Code::kFailedPrecondition);  // it is in use
  scheduler_.reset();
  scheduling_.job.workers = 3;
  const auto other = another();
  EXPECT_EQ(code_of(other), Code::kFailedPrecondition);
  EXPECT_NE(other.error().message().find("other options"), std::string::npos)
      << other.error().message();
  scheduling_.job.workers = 2;
  fs::rename(scheduling_.state(), scheduling_.state() + ".good");
  std::ofstream(scheduling_.state()) << "what somebody else wrote";
  EXPECT_EQ(code_of(another()), Code::kDataLoss);
  fs::rename(scheduling_.state() + ".good", scheduling_.state());
  open();
  EXPECT_EQ(must(first.members(soon())), std::vector<std::uint32_t>{0});
}

}  // namespace
}  // namespace ferry::ps::testing
