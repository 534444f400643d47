#include <signal.h>

#include <atomic>

#include "tests/ps/roles.h"

// Servers are killed and paused at random while workers train; whatever happens, the weights are
// those of a sequential model. A failure names its seed.

namespace ferry::ps::testing {
namespace {

constexpr std::size_t kChaosCount = 12000;
constexpr std::size_t kRow = 4;
constexpr std::uint64_t kSteps = 40;

// Whole numbers: sums are the same in any order.
std::vector<float> chaos_gradient(std::uint32_t rank, std::uint64_t step) {
  std::vector<float> values(kChaosCount);
  for (std::size_t each = 0; each < kChaosCount; ++each)
    values[each] = static_cast<float>((each + 3 * rank + 7 * step) % 11);
  return values;
}
bool pushes_rows(std::uint32_t rank, std::uint64_t step) { return (rank + step) % 3 == 0; }
bool has_row(std::uint64_t row, std::uint64_t step) { return (row + step) % 5 == 0; }

// What worker `rank` adds in a step.
void add_chaos(std::vector<float>& sum, std::uint32_t rank, std::uint64_t step) {
  const auto gradient = chaos_gradient(rank, step);
  for (std::size_t each = 0; each < kChaosCount; ++each)
    if (!pushes_rows(rank, step) || has_row(each / kRow, step)) sum[each] += gradient[each];
}

class Chaos : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    random_.seed(GetParam());
    job_.servers = 3 + pick(3);
    job_.workers = 2 + pick(2);
    job_.consistency = static_cast<Consistency>(1 + GetParam() % 3);
    job_.staleness = pick(3);
    job_.block_bytes = 4096;
    job_.pool_blocks = pick(2) == 0 ? 2 * job_.workers : 64;
    job_.replicas = 2;
    provider_ = pick(2) == 0 ? "shm" : "tcp";
    scheduler_.emplace(must(Scheduler::open({job_, device_options(provider_)})));
    for (std::uint32_t each = 0; each < job_.servers; ++each) {
      servers_.push_back(Process::start({"--role", "serve", scheduler_->endpoint(), provider_}));
      while (scheduler_->stats().servers <= each) std::this_thread::sleep_for(1ms);
    }
    gone_.resize(job_.servers);
  }

  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  // A server that may go: its neighbours are there.
  std::optional<std::uint32_t> victim() {
    std::vector<std::uint32_t> all;
    for (std::uint32_t each = 0; each < job_.servers; ++each)
      if (!gone_[each] && !gone_[(each + 1) % job_.servers] &&
          !gone_[(each + job_.servers - 1) % job_.servers])
        all.push_back(each);
    if (all.empty()) return std::nullopt;
    return all[pick(static_cast<std::uint32_t>(all.size()))];
  }

  // Kills, short pauses that nobody takes for a death, and one that is long enough to be one.
  void trouble() {
    bool long_pause = false;
    // Before all servers were there, one that goes ends the job.
    while (working_ > 0 && scheduler_->stats().tensors == 0) std::this_thread::sleep_for(1ms);
    while (working_ > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + pick(60)));
      const auto index = victim();
      if (!index) continue;
      const auto what = pick(3);
      if (what == 0) {
        servers_[*index].signal(SIGKILL);
        gone_[*index] = true;
        continue;
      }
      servers_[*index].signal(SIGSTOP);
      if (what == 1 || long_pause) {
        std::this_thread::sleep_for(std::chrono::milliseconds(pick(100)));
      } else {
        const auto before = scheduler_->stats().servers_gone;
        const auto deadline = soon();
        while (scheduler_->stats().servers_gone == before && working_ > 0 && !deadline.expired())
          std::this_thread::sleep_for(2ms);
        long_pause = true;
        gone_[*index] = true;
      }
      servers_[*index].signal(SIGCONT);
    }
  }

  void train(std::uint32_t rank) const {
    auto worker = must(Worker::open(
        {.scheduler = scheduler_->endpoint(), .device = device_options(provider_), .rank = rank},
        soon()));
    const auto spec = f32({kChaosCount / kRow, kRow});
    const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
    const auto place = must(worker.allocate(spec, soon()));
    must(worker.barrier(soon()));
    std::vector<float> own(kChaosCount);
    std::vector<float> all(kChaosCount);
    std::vector<float> got(kChaosCount);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const auto gradient = chaos_gradient(rank, step);
      push(worker, w, place, gradient, step);
      must(worker.end_step(soon()));
      must(worker.flush(soon()));
      add_chaos(own, rank, step);
      for (std::uint32_t each = 0; each < job_.workers; ++each) add_chaos(all, each, step);
      must(worker.pull_to(w, std::as_writable_bytes(std::span(got)), soon()));
      if (job_.consistency == Consistency::kSync) {
        ASSERT_EQ(got, all) << "step " << step;
      }
      // What was acknowledged is there.
      for (std::size_t each = 0; each < kChaosCount; ++each) ASSERT_GE(got[each], own[each]);
      std::this_thread::sleep_for(std::chrono::milliseconds((rank + step) % 8));
    }
    must(worker.barrier(soon()));
    EXPECT_EQ(floats(must(worker.pull(w, soon())), kChaosCount), all) << "worker " << rank;
    must(worker.barrier(soon()));
    must(worker.leave(soon()));
  }

  static void push(Worker& worker, Parameter w, const tensor::Tensor& place,
                   const std::vector<float>& gradient, std::uint64_t step) {
    const auto rank = worker.rank();
    if (pushes_rows(rank, step)) {
      std::vector<std::uint64_t> rows;
      std::vector<float> values;
      for (std::uint64_t row = 0; row < kChaosCount / kRow; ++row) {
        if (!has_row(row, step)) continue;
        rows.push_back(row);
        const auto* begin = gradient.data() + row * kRow;
        values.insert(values.end(), begin, begin + kRow);
      }
      must(worker.push_rows(w, rows, raw(values), soon()));
    } else if (step % 2 == 0) {
      std::copy(gradient.begin(), gradient.end(), place.elements<float>().begin());
      must(worker.push(w, place.bytes(), soon()));
    } else {
      must(worker.push(w, raw(gradient), soon()));
    }
  }

  std::mt19937_64 random_;
  JobOptions job_;
  std::string provider_;
  std::optional<Scheduler> scheduler_;
  std::vector<Process> servers_;
  std::vector<bool> gone_;  // or about to be
  std::atomic<std::uint32_t> working_{0};
};

INSTANTIATE_TEST_SUITE_P(Seed, Chaos, ::testing::Range<std::uint64_t>(1, 7),
                         [](const auto& each) { return std::to_string(each.param); });

TEST_P(Chaos, TheWeightsAreThoseOfTheModel) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "reads of what changes are meant to race, and its time is not a job's";
#endif
  working_ = job_.workers;
  std::vector<std::thread> workers;
  for (std::uint32_t rank = 0; rank < job_.workers; ++rank)
    workers.emplace_back([this, rank] {
      try {
        train(rank);
      } catch (const std::exception& problem) {
        ADD_FAILURE() << "worker " << rank << ": " << problem.what();
      }
      --working_;
    });
  trouble();
  for (auto& worker : workers) worker.join();
  must(scheduler_->wait(soon()));
  const auto lost = std::count(gone_.begin(), gone_.end(), true);
  EXPECT_LE(scheduler_->stats().servers_gone, static_cast<std::uint32_t>(lost));
  EXPECT_EQ(scheduler_->stats().dead, 0U);
}

}  // namespace
}  // namespace ferry::ps::testing
