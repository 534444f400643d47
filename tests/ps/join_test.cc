#include <signal.h>

#include "ferry/math/optimize.h"
#include "tests/ps/roles.h"

// Workers that join late, and such that come back.

namespace ferry::ps::testing {
namespace {

struct Join {
  const char* provider;
  Consistency consistency;
};

std::string name_of_join(const ::testing::TestParamInfo<Join>& each) {
  static const char* const kNames[] = {"", "sync", "bounded", "async"};
  return std::string(each.param.provider) + "_" +
         kNames[static_cast<std::size_t>(each.param.consistency)];
}

class Joins : public ::testing::TestWithParam<Join> {};
INSTANTIATE_TEST_SUITE_P(All, Joins,
                         ::testing::Values(Join{"shm", Consistency::kSync},
                                           Join{"tcp", Consistency::kSync},
                                           Join{"shm", Consistency::kBounded},
                                           Join{"tcp", Consistency::kAsync}),
                         name_of_join);

constexpr std::size_t kJoinValues = 20'000;

// Adds one in each step, and knows what the sum of all is to be.
class Stepper {
 public:
  Stepper(const Job& job, std::optional<std::uint32_t> rank)
      : worker_(job.worker(rank)),
        w_(must(worker_.init("w", f32({kJoinValues}), {}, {UpdateKind::kSum}, soon()))) {}

  void push(int steps = 1) { must(push_steps(worker_, w_, ones_, steps)); }
  void expect(float sum) {
    EXPECT_EQ(floats(must(worker_.pull(w_, soon())), kJoinValues),
              std::vector<float>(kJoinValues, sum));
  }
  Worker& worker() { return worker_; }

 private:
  std::vector<float> ones_ = std::vector<float>(kJoinValues, 1.0F);
  Worker worker_;
  Parameter w_;
};

// Steps of both, at the same time: in kSync one waits for the other.
void both(Stepper& a, Stepper& b, int steps) {
  std::thread other([&] { b.push(steps); });
  a.push(steps);
  other.join();
}

JobOptions options_of(const Join& join) {
  return {.servers = 2,
          .workers = 2,
          .start_with = 1,
          .consistency = join.consistency,
          .staleness = 4,
          .block_bytes = 4096,
          .pool_blocks = 16};
}

TEST_P(Joins, LateAndTwice) {
  Job job(GetParam().provider, options_of(GetParam()), 2);
  Stepper first(job, 0);
  first.push(3);
  first.expect(3);
  for (int round = 0; round < 2; ++round) {
    std::optional<Stepper> second(std::in_place, job, std::nullopt);
    EXPECT_EQ(second->worker().rank(), 1U);
    EXPECT_EQ(must(second->worker().members(soon())), (std::vector<std::uint32_t>{0, 1}));
    second->expect(3.0F + 8.0F * static_cast<float>(round));
    both(first, *second, 4);
    first.expect(11.0F + 8.0F * static_cast<float>(round));
    second->expect(11.0F + 8.0F * static_cast<float>(round));
    must(second->worker().leave(soon()));
  }
  first.push();
  first.expect(20);
  // Who leaves is told so before it is counted.
  EXPECT_TRUE(until([&] { return job.scheduler().stats().left == 2; }));
  EXPECT_EQ(job.scheduler().stats().workers, 1U);
  must(first.worker().leave(soon()));
  must(job.scheduler().wait(soon()));
}

TEST_P(Joins, AreRefusedWhileSomebodyHasTheRank) {
  auto options = options_of(GetParam());
  Job job(GetParam().provider, options);
  Stepper first(job, 0);
  Stepper second(job, 1);
  auto again = job.worker_options();
  again.rank = 1;
  EXPECT_EQ(code_of(Worker::open(again, soon())), Code::kAlreadyExists);
  again.rank = {};
  EXPECT_EQ(code_of(Worker::open(again, soon())), Code::kResourceExhausted);
}

class JoinsAfter : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Provider, JoinsAfter, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

Training losing(Job& job, const char* how, std::uint64_t step) {
  return {.scheduler = job.scheduler().endpoint(),
          .provider = JoinsAfter::GetParam(),
          .workers = 2,
          .victim = 1,
          .victim_step = step,
          .how = how};
}

// A process is killed in the middle of a step, and another one takes its rank.
TEST_P(JoinsAfter, ADeath) {
  Job job(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096, .pool_blocks = 8}, 2);
  const auto training = losing(job, "before", 2);
  auto victim = Process::start(training.arguments(1));
  auto worker = job.worker(0);
  const auto [a, b] = training.init(worker, soon());
  const auto w = must(worker.init("w", f32({kJoinValues}), {}, {UpdateKind::kSum}, soon()));
  must(worker.barrier(soon()));
  const std::vector<float> values(training.count, 1.0F);
  const std::vector<float> ones(kJoinValues, 1.0F);
  const auto step = [&, a = a, b = b] {
    must(worker.push(a, raw(values), soon()));
    must(worker.push(b, raw(values), soon()));
    must(push_steps(worker, w, ones));
  };
  for (int each = 0; each < 3; ++each) step();
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  Stepper back(job, 1);
  std::thread other([&] { back.push(3); });
  for (int each = 0; each < 3; ++each) step();
  other.join();
  back.expect(9);
  EXPECT_EQ(floats(must(worker.pull(w, soon())), kJoinValues),
            std::vector<float>(kJoinValues, 9.0F));
  EXPECT_EQ(job.scheduler().stats().dead, 1U);
  EXPECT_EQ(job.scheduler().stats().workers, 2U);
}

// Whoever has the rank ends a step and dies before it is applied; another one comes before that,
// and does the same. What they have ended counts, and nothing else.
TEST_P(JoinsAfter, AnEndThatIsNotAppliedYet) {
  Job job(GetParam(), {.servers = 2, .workers = 2, .block_bytes = 4096, .pool_blocks = 64}, 2);
  const auto training = losing(job, "after", 1);
  auto worker = job.worker(0);
  const auto a = training.init(worker, soon())[0];
  const std::vector<float> ones(training.count, 1.0F);
  const auto theirs = noise(training.count, 10'000 + 10);  // as roles.cc has it
  std::vector<float> expected(training.count);
  std::vector<float> velocity(training.count);
  const auto step = [&](std::vector<const float*> parts) {
    must(push_steps(worker, a, ones));
    math::momentum(expected.data(), expected.data(), velocity.data(), {parts, 1.0F}, {0.1F, 0.9F},
                   training.count);
    EXPECT_EQ(floats(must(worker.pull(a, soon())), training.count), expected);
  };
  for (std::uint32_t dead = 1; dead <= 2; ++dead) {
    auto victim = Process::start(training.arguments(1));
    if (dead == 2) step({ones.data(), theirs.data()});
    EXPECT_EQ(victim.wait(), 128 + SIGKILL);
    EXPECT_TRUE(until([&] { return job.scheduler().stats().dead == dead; }));
  }
  auto third = job.worker(1);
  step({ones.data(), theirs.data()});
  std::thread other([&] { must(third.end_step(soon())); });
  step({ones.data()});
  other.join();
}

// What two of them have pushed where it lay is read there, whoever has come meanwhile.
TEST_P(JoinsAfter, EndsOfSeveralThatAreNotAppliedYet) {
  Job job(GetParam(), {.workers = 4, .start_with = 3, .block_bytes = 4096, .pool_blocks = 256});
  auto training = losing(job, "after", 1);
  auto worker = job.worker(0);
  const auto a = training.init(worker, soon())[0];
  const std::vector<float> ones(training.count, 1.0F);
  std::vector<std::vector<float>> theirs;
  for (const std::uint32_t rank : {1U, 2U}) {
    training.victim = rank;
    theirs.push_back(noise(training.count, 10'000 * rank + 10));  // as roles.cc has it
    EXPECT_EQ(Process::start(training.arguments(rank)).wait(), 128 + SIGKILL);
    EXPECT_TRUE(until([&] { return job.scheduler().stats().dead == rank; }));
  }
  const auto first = job.worker(1);
  const auto second = job.worker(2);
  auto late = job.worker(3);
  std::this_thread::sleep_for(20ms);
  must(late.end_step(soon()));
  must(push_steps(worker, a, ones));
  std::vector<float> expected(training.count);
  std::vector<float> velocity(training.count);
  const std::vector<const float*> parts = {ones.data(), theirs[0].data(), theirs[1].data()};
  math::momentum(expected.data(), expected.data(), velocity.data(), {parts, 1.0F}, {0.1F, 0.9F},
                 training.count);
  EXPECT_EQ(floats(must(worker.pull(a, soon())), training.count), expected);
}

TEST(SchedulerThatIsLate, IsWaitedFor) {
  auto device = device_options("shm");
  {
    const Scheduler first = must(Scheduler::open({{}, device}));
    device.listen = first.endpoint();  // free again
  }
  std::optional<Server> server;
  std::thread early([&] {
    server.emplace(
        must(Server::open({.scheduler = device.listen, .device = device_options("shm")}, soon())));
  });
  std::this_thread::sleep_for(300ms);
  const auto late = must(Scheduler::open({{}, device}));
  early.join();
  ASSERT_TRUE(server);
  EXPECT_EQ(late.stats().servers, 1U);
}

TEST(SchedulerThatIsAlone, SaysWhatIsMissing) {
  const auto device = device_options("shm");
  const auto scheduler = must(Scheduler::open({{}, device}));
  const auto worker = Worker::open({.scheduler = scheduler.endpoint(), .device = device},
                                   Deadline::after(500ms * kSlower));
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().code(), Code::kDeadlineExceeded);
  EXPECT_NE(worker.error().message().find("servers of the job are missing"), std::string::npos)
      << worker.error().message();
}

TEST(JoinOptions, ThatCannotBe) {
  EXPECT_EQ(code_of(Scheduler::open({{.workers = 2, .start_with = 3}, device_options("shm")})),
            Code::kOutOfRange);
}

}  // namespace
}  // namespace ferry::ps::testing
