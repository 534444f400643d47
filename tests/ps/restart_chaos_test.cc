#include <signal.h>

#include <filesystem>
#include <future>

#include "tests/ps/counting.h"

// Workers and servers are killed, paused and restarted while others train. Of each worker's steps,
// those that were acknowledged count once, and those that were not count everywhere or nowhere.

namespace ferry::ps::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int kEvents = 4;
#else
constexpr int kEvents = 10;
#endif

class Restarts : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    random_.seed(GetParam());
    provider_ = GetParam() % 2 == 0 && GetParam() <= 4 ? "shm" : "tcp";
    path_ = ::testing::TempDir() + "ferry-counts-" + std::to_string(::getpid());
    std::filesystem::remove(path_);
    counts_ = Counts::map(path_);
    auto device = device_options(provider_);
    device.patience = 4;
    job_ = {.servers = 2 + pick(2),
            .workers = Counts::kRanks,
            .block_bytes = 4096,
            .pool_blocks = pick(2) == 0 ? 8U : 64U,
            .replicas = 2,
            .merge = GetParam() > 4};
    scheduler_.emplace(must(Scheduler::open({job_, device})));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  Process start_server() const {
    return Process::start({"--role", "serve", scheduler_->endpoint(), provider_, "4"});
  }
  Process start_worker(std::uint32_t rank) const {
    return Process::start(
        {"--role", "count", scheduler_->endpoint(), provider_, std::to_string(rank), path_});
  }

  void pause(const Process& process) {
    process.signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(pick(100)));
    process.signal(SIGCONT);
  }
  // A worker other than the test's own is killed, and one comes back in its place.
  bool restart_worker() {
    const auto rank = 1 + pick(Counts::kRanks - 1);
    auto& worker = workers_[rank - 1];
    if (!until([&] { return scheduler_->stats().workers == Counts::kRanks; })) return false;
    const auto dead = scheduler_->stats().dead;
    worker->signal(SIGKILL);
    if (!until([&] { return scheduler_->stats().dead > dead; })) return false;
    worker.emplace(start_worker(rank));
    return true;
  }
  // The server's place is known only to the scheduler: any of those that are there may go.
  bool restart_server() {
    const auto index = pick(static_cast<std::uint32_t>(servers_.size()));
    servers_[index]->signal(SIGKILL);
    if (!until([&] { return scheduler_->stats().servers_gone == 1; })) return false;
    servers_[index].emplace(start_server());
    return until([&] { return scheduler_->stats().servers_gone == 0; });
  }
  // Whether the job is as it should be afterwards.
  bool trouble() {
    switch (pick(4)) {
      case 0:
        return restart_worker();
      case 1:
        pause(*workers_[pick(Counts::kRanks - 1)]);
        return true;
      case 2:
        pause(*servers_[pick(static_cast<std::uint32_t>(servers_.size()))]);
        return true;
      default:
        return restart_server();
    }
  }
  // The test's own worker, which nobody kills.
  std::string train() {
    try {
      CountingWorker worker(scheduler_->endpoint(), provider_, 0, *counts_);
      // Others may be in a step that needs this one.
      while (counts_->stop == 0 || scheduler_->stats().workers > 1) {
        worker.step();
        (void)worker.rows();
      }
      const auto counted = worker.rows();
      worker.leave();
      for (std::uint32_t rank = 0; rank < Counts::kRanks; ++rank)
        if (counted[rank] < counts_->acknowledged[rank] || counted[rank] > counts_->begun[rank])
          return fmt::format("worker {} was counted {} times, {} were acknowledged and {} begun",
                             rank, counted[rank], counts_->acknowledged[rank].load(),
                             counts_->begun[rank].load());
      return "";
    } catch (const std::exception& problem) {
      return problem.what();
    }
  }

  std::mt19937_64 random_;
  JobOptions job_;
  std::string provider_;
  std::string path_;
  Counts* counts_ = nullptr;
  std::optional<Scheduler> scheduler_;
  std::vector<std::optional<Process>> servers_;
  std::vector<std::optional<Process>> workers_;
};

INSTANTIATE_TEST_SUITE_P(Seed, Restarts, ::testing::Range<std::uint64_t>(1, 7),
                         [](const auto& each) { return std::to_string(each.param); });

TEST_P(Restarts, CountWhatWasAcknowledgedOnce) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "processes of this build take longer to start than the others wait";
#endif
  for (std::uint32_t each = 0; each < job_.servers; ++each) servers_.emplace_back(start_server());
  for (std::uint32_t rank = 1; rank < Counts::kRanks; ++rank)
    workers_.emplace_back(start_worker(rank));
  auto own = std::async(std::launch::async, [this] { return train(); });
  bool well = until([&] { return counts_->acknowledged[0] > 0; });
  for (int event = 0; event < kEvents && well; ++event) {
    well = trouble();
    const auto before = counts_->acknowledged[0].load();
    well = well && until([&] { return counts_->acknowledged[0] > before; });
    EXPECT_TRUE(well) << "the job did not go on after event " << event;
  }
  well = well && until([&] { return scheduler_->stats().workers == Counts::kRanks; });
  counts_->stop = 1;
  for (auto& worker : workers_) EXPECT_EQ(worker->wait(Deadline::after(60s)), 0);
  EXPECT_EQ(own.get(), "");
  EXPECT_TRUE(well);
  must(scheduler_->wait(soon()));
  for (auto& server : servers_) EXPECT_EQ(server->wait(), 0);
}

}  // namespace
}  // namespace ferry::ps::testing
