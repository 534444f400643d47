#include <signal.h>

#include <algorithm>

#include "ferry/math/optimize.h"
#include "ferry/math/sum.h"
#include "tests/ps/roles.h"

// Gradients of several workers of one host leave it as one.

namespace ferry::ps::testing {
namespace {

constexpr std::size_t kMergeValues = 20'000;
constexpr std::uint64_t kAloneSteps = 2;  // before everybody knows everybody

// A poor one has no memory that others could read but for 2 MiB.
Worker worker_of_host(const Job& job, std::uint32_t rank, std::uint32_t host, bool poor = false) {
  auto options = job.worker_options();
  if (poor) options.device.arena_bytes = std::size_t{1} << 20;
  if (poor) options.device.budget_bytes = std::size_t{2} << 20;
  options.rank = rank;
  options.host = fmt::format("host {}", host);
  return must(Worker::open(options, soon()));
}

// Runs one thread for each worker; hosts[r] is the host of rank r.
void on_hosts(const Job& job, const std::vector<std::uint32_t>& hosts,
              const std::function<void(Worker&)>& body, std::optional<std::uint32_t> poor = {}) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        auto worker = worker_of_host(job, rank, hosts[rank], rank == poor);
        body(worker);
        must(worker.leave(soon()));
      } catch (const std::exception& problem) {
        ADD_FAILURE() << "worker " << rank << ": " << problem.what();
      }
    });
  for (auto& thread : threads) thread.join();
}

std::vector<float> gradient(std::uint32_t rank, std::uint64_t step, std::uint64_t which) {
  return noise(kMergeValues, 1000 * rank + 10 * step + which);
}

// The gradients of a step, as servers get them.
std::vector<std::vector<float>> sources(const std::vector<std::uint32_t>& hosts, std::uint64_t step,
                                        std::uint64_t which) {
  std::vector<std::vector<float>> all;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank)
    all.push_back(gradient(rank, step, which));
  if (step <= kAloneSteps) return all;
  std::vector<std::vector<float>> sums;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::find(hosts.begin(), hosts.begin() + rank, hosts[rank]) != hosts.begin() + rank)
      continue;
    std::vector<const float*> parts;
    for (std::uint32_t other = rank; other < hosts.size(); ++other)
      if (hosts[other] == hosts[rank]) parts.push_back(all[other].data());
    math::sum({parts, 1.0F}, sums.emplace_back(kMergeValues).data(), kMergeValues);
  }
  return sums;
}

class Merge : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Slots, Merge, ::testing::Values(10U, 320U),
                         [](const auto& each) { return std::to_string(each.param); });

// The weights are those of a sequential model that adds up each host first; and only the lowest
// rank of a host sends anything.
TEST_P(Merge, WeightsAndBytesAreThoseOfHosts) {
  constexpr std::uint64_t kSteps = 6;
  const std::vector<std::uint32_t> hosts = {0, 1, 0, 1, 0};
  Job job("tcp",
          {.servers = 2,
           .workers = 5,
           .mean = true,
           .block_bytes = 4096,
           .pool_blocks = GetParam(),
           .merge = true},
          2);
  const Update adam{.kind = UpdateKind::kAdam, .rate = 0.01};
  const Update sgd{.kind = UpdateKind::kSgd, .rate = 0.1};
  std::vector<float> a(kMergeValues);
  std::vector<float> b(kMergeValues);
  std::vector<float> m(kMergeValues);
  std::vector<float> v(kMergeValues);
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    for (std::uint64_t which = 0; which < 2; ++which) {
      const auto all = sources(hosts, step, which);
      std::vector<const float*> parts;
      for (const auto& one : all) parts.push_back(one.data());
      const math::Parts sum{parts, 1.0F / 5};
      if (which == 0)
        math::adam(a.data(), a.data(), m.data(), v.data(), sum,
                   {.rate = 0.01, .t = static_cast<double>(step)}, kMergeValues);
      else
        math::sgd(b.data(), b.data(), sum, 0.1F, kMergeValues);
    }
  }
  on_hosts(job, hosts, [&](Worker& worker) {
    const auto rank = worker.rank();
    const auto spec = f32({kMergeValues});
    const auto first = must(worker.init("a", spec, {}, adam, soon()));
    const auto second = must(worker.init("b", spec, {}, sgd, soon()));
    const auto brought = worker.stats().pushed_bytes;
    const auto place = must(worker.allocate(spec, soon()));
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      // One of them where neighbours read it, one not.
      const auto mine = gradient(rank, step, 0);
      const auto other = gradient(rank, step, 1);
      std::copy(mine.begin(), mine.end(), place.elements<float>().begin());
      must(worker.push(first, place.bytes(), soon()));
      must(worker.push(second, raw(other), soon()));
      must(worker.end_step(soon()));
      must(worker.flush(soon()));
    }
    EXPECT_EQ(floats(must(worker.pull(first, soon())), kMergeValues), a) << "worker " << rank;
    EXPECT_EQ(floats(must(worker.pull(second, soon())), kMergeValues), b) << "worker " << rank;
    must(worker.barrier(soon()));
    const auto stats = worker.stats();
    const bool leads = rank < 2;
    const auto sent = leads ? kSteps : kAloneSteps;
    EXPECT_EQ(stats.pushed_bytes - brought, sent * 2 * kMergeValues * sizeof(float));
    EXPECT_EQ(stats.sums, leads ? 2 * (kSteps - kAloneSteps) : 0);
    EXPECT_EQ(stats.merged, leads ? 0 : 2 * (kSteps - kAloneSteps));
  });
}

// Rows, and what only some push, beside what is merged.
TEST(MergeSome, PushesAreCountedOnceWhateverTheyAre) {
  const std::vector<std::uint32_t> hosts = {0, 0, 0};
  constexpr std::size_t kRow = 8;
  constexpr std::size_t kRows = 600;
  Job job("tcp",
          {.servers = 2, .workers = 3, .block_bytes = 4096, .pool_blocks = 6, .merge = true});
  on_hosts(job, hosts, [&](Worker& worker) {
    const auto rank = worker.rank();
    const auto spec = f32({kRows, kRow});
    const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
    const auto x = must(worker.init("x", spec, {}, {UpdateKind::kSum}, soon()));
    const auto half = must(worker.init("half", {ElementType::kBf16, must(Shape::of({1000}))}, {},
                                       {UpdateKind::kSum}, soon()));
    const std::vector<float> ones(kRows * kRow, 1.0F);
    const std::vector<std::uint16_t> halves(1000, 0x3f80);
    std::vector<std::uint64_t> keys(kRows);
    for (std::size_t row = 0; row < kRows; ++row) keys[row] = row;
    float sum = 0;
    for (std::uint32_t step = 1; step <= 10; ++step) {
      // The leader pushes nothing of x but rows at times, as the others do.
      must(worker.push(w, raw(ones), soon()));
      if (step % 3 == 0) must(worker.push(half, raw(halves), soon()));
      if (rank == step % 4)
        must(worker.push_rows(x, keys, raw(ones), soon()));
      else if (rank > 0)
        must(worker.push(x, raw(ones), soon()));
      must(worker.end_step(soon()));
      sum += step % 4 == 0 ? 3 : 2;  // the leader's rows, too
      EXPECT_EQ(floats(must(worker.pull(w, soon())), kRows * kRow),
                std::vector<float>(kRows * kRow, 3.0F * static_cast<float>(step)));
    }
    EXPECT_EQ(floats(must(worker.pull(x, soon())), kRows * kRow),
              std::vector<float>(kRows * kRow, sum));
    EXPECT_GT(worker.stats().merged + worker.stats().sums, 0U);
  });
}

struct MergedLoss {
  std::uint32_t victim;  // 1 leads its host, 3 does not
  const char* how;
  std::uint32_t pool;
};

class MergedDeath : public ::testing::TestWithParam<MergedLoss> {};
INSTANTIATE_TEST_SUITE_P(All, MergedDeath,
                         ::testing::Values(MergedLoss{1, "before", 8}, MergedLoss{1, "after", 256},
                                           MergedLoss{3, "before", 256}, MergedLoss{3, "after", 8}),
                         [](const auto& each) {
                           return fmt::format("{}_{}_{}", each.param.victim, each.param.how,
                                              each.param.pool);
                         });

// Two hosts with two worker processes each, one of which dies. Its step counts for all blocks or
// for none, and so do those of its neighbours, whose gradients it may have had.
TEST_P(MergedDeath, CountsForAllOrForNone) {
  const auto& what = GetParam();
  Job job(
      "tcp",
      {.servers = 2, .workers = 4, .block_bytes = 4096, .pool_blocks = what.pool, .merge = true});
  Training training{.scheduler = job.scheduler().endpoint(), .provider = "tcp", .workers = 4};
  training.how = what.how;
  training.victim = what.victim;
  training.victim_step = 4;
  training.hosts = 2;
  std::vector<Process> workers;
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    workers.push_back(Process::start(training.arguments(rank)));
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const auto status = workers[rank].wait();
    if (rank == what.victim)
      EXPECT_EQ(status, 128 + SIGKILL);
    else
      EXPECT_TRUE(status == 0 || status == Training::kBegunAnew)
          << "worker " << rank << ": " << status;
  }
  EXPECT_EQ(job.scheduler().stats().dead, 1U);
  must(job.scheduler().wait(soon()));
}

// Both copies get the sums.
TEST(MergedServerLoss, NobodyNoticesInTheWeights) {
  auto scheduler = must(Scheduler::open({{.servers = 3,
                                          .workers = 3,
                                          .block_bytes = 4096,
                                          .pool_blocks = 12,
                                          .replicas = 2,
                                          .merge = true},
                                         device_options("tcp")}));
  std::vector<Process> servers;
  for (int each = 0; each < 3; ++each)
    servers.push_back(Process::start({"--role", "serve", scheduler.endpoint(), "tcp"}));
  Training training{.scheduler = scheduler.endpoint(), .provider = "tcp"};
  training.victim_step = 4;
  training.hosts = 1;
  training.hit = servers[1].pid();
  training.signal = SIGKILL;
  std::vector<Process> workers;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    workers.push_back(Process::start(training.arguments(rank)));
  for (auto& worker : workers) {
    const auto status = worker.wait();
    EXPECT_TRUE(status == 0 || status == Training::kBegunAnew) << status;
  }
  EXPECT_EQ(servers[1].wait(), 128 + SIGKILL);
  must(scheduler.wait(soon()));
  EXPECT_EQ(scheduler.stats().servers_gone, 1U);
}

// A worker with a lower rank comes late, and leads from then on; then it leaves.
TEST(MergeJoin, LateAndLeaving) {
  Job job("tcp", {.servers = 2,
                  .workers = 3,
                  .start_with = 2,
                  .block_bytes = 4096,
                  .pool_blocks = 12,
                  .merge = true});
  const std::vector<float> ones(kMergeValues, 1.0F);
  const auto opened = [&](Worker& worker) {
    return must(worker.init("w", f32({kMergeValues}), {}, {UpdateKind::kSum}, soon()));
  };
  const auto steps = [&](Worker& worker, Parameter w, int count) {
    for (int step = 0; step < count; ++step) (void)must(worker.push_pull(w, raw(ones), soon()));
  };
  auto second = worker_of_host(job, 1, 0);
  std::optional<Worker> first(worker_of_host(job, 0, 0));
  std::optional<Worker> third;
  const auto w = opened(second);
  const auto both = [&](Worker& other, int count) {
    std::thread thread([&] { steps(other, opened(other), count); });
    steps(second, w, count);
    thread.join();
  };
  const auto expect = [&](float sum) {
    EXPECT_EQ(floats(must(second.pull(w, soon())), kMergeValues),
              std::vector<float>(kMergeValues, sum));
  };
  both(*first, 4);
  expect(8);
  EXPECT_EQ(second.stats().merged, 2U);
  EXPECT_EQ(first->stats().sums, 2U);
  must(first->leave(soon()));
  first.reset();
  steps(second, w, 2);
  expect(10);
  third.emplace(worker_of_host(job, 2, 0));
  both(*third, 4);
  expect(18);
  EXPECT_EQ(third->stats().merged, 3U);
  EXPECT_EQ(second.stats().sums, 3U);
  must(third->leave(soon()));
  first.emplace(worker_of_host(job, 0, 0));
  both(*first, 4);
  expect(26);
  EXPECT_EQ(first->stats().sums, 3U);
  EXPECT_EQ(second.stats().merged, 5U);
}

// Worker 0 ends the first step and dies, so the second one is to be begun anew. Those who come only
// then begin with the first one, which is not.
TEST(MergeJoin, AfterADeathButFromTheBeginning) {
  Job job("tcp", {.servers = 2, .workers = 3, .block_bytes = 4096, .merge = true});
  const Training training{.scheduler = job.scheduler().endpoint(),
                          .provider = "tcp",
                          .victim = 0,
                          .victim_step = 1,
                          .how = "after",
                          .hosts = 1};
  auto victim = Process::start(training.arguments(0));
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_TRUE(until([&] { return job.scheduler().stats().dead == 1; }));
  const std::vector<float> ones(training.count, 1.0F);
  const auto theirs = noise(training.count, 10);  // as roles.cc has it
  std::vector<float> expected(training.count);
  std::vector<float> velocity(training.count);
  const auto model = [&](const std::vector<const float*>& parts) {
    math::momentum(expected.data(), expected.data(), velocity.data(), {parts, 1.0F}, {0.1F, 0.9F},
                   training.count);
  };
  model({theirs.data(), ones.data(), ones.data()});
  model({ones.data(), ones.data()});
  auto second = worker_of_host(job, 1, 0);
  auto third = worker_of_host(job, 2, 0);
  const auto steps = [&](Worker& worker) {
    const auto a = training.init(worker, soon())[0];
    must(push_steps(worker, a, ones, 2));
    EXPECT_EQ(floats(must(worker.pull(a, soon())), training.count), expected);
  };
  std::thread other([&] { EXPECT_NO_THROW(steps(third)); });
  EXPECT_NO_THROW(steps(second));
  other.join();
}

// Worker 0 leaves before it has ended the step, so what others have ended is forgotten. One of them
// waits at a barrier by then, for another one that waits for the step.
TEST(MergeLeave, BeginsAStepAnewOfOneThatIsAtABarrier) {
  Job job("tcp", {.servers = 2, .workers = 3, .block_bytes = 4096, .merge = true});
  auto first = worker_of_host(job, 0, 0);
  auto second = worker_of_host(job, 1, 0);
  auto third = worker_of_host(job, 2, 0);
  const std::vector<float> ones(kMergeValues, 1.0F);
  Parameter w = 0;
  for (auto* worker : {&second, &third}) {
    w = must(worker->init("w", f32({kMergeValues}), {}, {UpdateKind::kSum}, soon()));
    must(worker->push(w, raw(ones), soon()));
    must(worker->end_step(soon()));
  }
  must(first.leave(soon()));
  std::thread other([&] { EXPECT_NO_THROW(must(second.barrier(soon()))); });
  EXPECT_NO_THROW(must(third.flush(soon())));
  EXPECT_NO_THROW(must(third.barrier(soon())));
  other.join();
  EXPECT_EQ(floats(must(third.pull(w, soon())), kMergeValues),
            std::vector<float>(kMergeValues, 2.0F));
}

// The word that the step is begun anew is there when first values are sent, through so few slots
// that they have to be waited for.
TEST(MergeLeave, BeginsAStepAnewWhileATensorIsMade) {
  Job job("tcp",
          {.servers = 2, .workers = 2, .block_bytes = 4096, .pool_blocks = 2, .merge = true});
  auto first = worker_of_host(job, 0, 0);
  auto second = worker_of_host(job, 1, 0);
  const std::vector<float> ones(1000, 1.0F);
  const auto w = must(second.init("w", f32({1000}), {}, {UpdateKind::kSum}, soon()));
  must(second.push(w, raw(ones), soon()));
  must(second.end_step(soon()));
  must(first.leave(soon()));
  EXPECT_TRUE(until([&] { return job.scheduler().stats().left == 1; }));
  const auto values = noise(kMergeValues, 1);
  const auto x =
      must(second.init("x", f32({kMergeValues}), raw(values), {UpdateKind::kSum}, soon()));
  EXPECT_EQ(floats(must(second.pull(x, soon())), kMergeValues), values);
  EXPECT_EQ(floats(must(second.pull(w, soon())), 1000), ones);
  EXPECT_EQ(second.stats().begun_anew, 1U);
}

// A push that ran out of time, and then the step is begun anew: all of it is pushed again.
TEST(MergeLeave, MakesAStepWholeThatWasHalfPushed) {
  Job job("tcp",
          {.servers = 2, .workers = 3, .block_bytes = 4096, .pool_blocks = 3, .merge = true});
  auto first = worker_of_host(job, 0, 0);
  auto second = worker_of_host(job, 1, 0);
  auto third = worker_of_host(job, 2, 0);
  const std::vector<float> ones(kMergeValues, 1.0F);
  const auto opened = [&](Worker& worker) {
    return must(worker.init("w", f32({kMergeValues}), {}, {UpdateKind::kSum}, soon()));
  };
  const auto w = opened(second);
  EXPECT_EQ(code_of(second.push(w, raw(ones), Deadline::after(20ms))), Code::kDeadlineExceeded);
  must(third.leave(soon()));
  std::thread other([&] { EXPECT_NO_THROW(must(push_steps(first, opened(first), ones))); });
  bool ended = false;
  EXPECT_TRUE(until([&] { return ended = ended || second.end_step(soon()).has_value(); }));
  other.join();
  EXPECT_EQ(floats(must(second.pull(w, soon())), kMergeValues),
            std::vector<float>(kMergeValues, 2.0F));
}

// Three steps of one worker, the last one of which may be merged; its end_step() is not among them.
Parameter until_the_third(Worker& worker, const std::vector<float>& gradient) {
  const auto spec = f32({static_cast<std::int64_t>(gradient.size())});
  const auto w = must(worker.init("w", spec, {}, {UpdateKind::kSum}, soon()));
  must(push_steps(worker, w, gradient, kAloneSteps));
  must(worker.push(w, raw(gradient), soon()));
  return w;
}

// Its leader may have added up by then what was offered.
TEST(MergeTooLate, ToPushMoreOfAStepThatWasOffered) {
  Job job("tcp", {.servers = 2, .workers = 2, .block_bytes = 4096, .merge = true});
  auto leader = worker_of_host(job, 0, 0);
  auto follower = worker_of_host(job, 1, 0);
  const std::vector<float> ones(kMergeValues, 1.0F);
  std::thread other([&] { EXPECT_NO_THROW(until_the_third(leader, ones)); });
  const auto w = until_the_third(follower, ones);
  other.join();
  const auto x = must(follower.init("x", f32({10}), {}, {UpdateKind::kSum}, soon()));
  EXPECT_EQ(code_of(follower.end_step(Deadline::after(20ms))), Code::kDeadlineExceeded);
  const std::vector<float> more(10, 1.0F);
  EXPECT_EQ(code_of(follower.push(x, raw(more), soon())), Code::kFailedPrecondition);
  std::thread last([&] { EXPECT_NO_THROW(must(leader.end_step(soon()))); });
  EXPECT_NO_THROW(must(follower.end_step(soon())));
  last.join();
  EXPECT_EQ(floats(must(follower.pull(w, soon())), kMergeValues),
            std::vector<float>(kMergeValues, 6.0F));
  EXPECT_EQ(follower.stats().merged, 1U);
}

// Worker 0 leads: it has no memory for the sum, or the other one for what it would offer.
TEST(MergeMemory, IsMissingSoEachPushesAlone) {
  const std::vector<float> ones(1'000'000, 1.0F);
  for (std::uint32_t poor = 0; poor < 2; ++poor) {
    Job job("tcp", {.workers = 2, .merge = true});
    on_hosts(
        job, {0, 0},
        [&](Worker& worker) {
          const auto w = until_the_third(worker, ones);
          must(worker.end_step(soon()));
          EXPECT_EQ(floats(must(worker.pull(w, soon())), ones.size()),
                    std::vector<float>(ones.size(), 6.0F));
          EXPECT_EQ(worker.stats().sums + worker.stats().merged, 0U);
        },
        poor);
  }
}

TEST(MergeOptions, ThatCannotBe) {
  for (const auto consistency : {Consistency::kAsync, Consistency::kBounded})
    EXPECT_EQ(code_of(Scheduler::open(
                  {{.consistency = consistency, .merge = true}, device_options("tcp")})),
              Code::kInvalidArgument);
}

// Where servers read gradients in place nothing leaves the host.
TEST(MergeOptions, AreNotNeededWhereServersMapMemory) {
  Job job("shm", {.workers = 2, .merge = true});
  on_hosts(job, {0, 0}, [&](Worker& worker) {
    const auto w = must(worker.init("w", f32({100}), {}, {UpdateKind::kSum}, soon()));
    const auto place = must(worker.allocate(f32({100}), soon()));
    std::fill(place.elements<float>().begin(), place.elements<float>().end(), 1.0F);
    for (int step = 1; step <= 4; ++step)
      EXPECT_EQ(floats(must(worker.push_pull(w, place.bytes(), soon())), 100),
                std::vector<float>(100, 2.0F * static_cast<float>(step)));
    EXPECT_EQ(worker.stats().merged + worker.stats().sums, 0U);
    EXPECT_EQ(worker.stats().pushed_in_place, 4U);
  });
}

}  // namespace
}  // namespace ferry::ps::testing
