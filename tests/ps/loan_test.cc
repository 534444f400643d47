#include <algorithm>
#include <atomic>

#include "tests/ps/kit.h"

// Whose the memory of a gradient is.

namespace ferry::ps::testing {
namespace {

constexpr std::size_t kCount = 1000;

// A server that reads a gradient late: when the test has written to its memory, or when it has had
// the time to.
struct LateReader {
  std::atomic<bool> reading{false};
  std::atomic<bool> rewritten{false};

  void add_to(ServerOptions& server) {
    server.functions["late"] = [this](const UpdateCall& call) {
      reading = true;
      const auto patience = Deadline::after(300ms);
      while (!rewritten && !patience.expired()) std::this_thread::sleep_for(1ms);
      for (std::size_t each = 0; each < call.count; ++each)
        call.updated[each] = call.weights[each] + call.gradient.sources[0][each];
    };
  }
};

const Update kLate{.kind = UpdateKind::kFunction, .function = "late"};

class Loans : public ::testing::TestWithParam<std::tuple<const char*, Consistency>> {
 protected:
  const char* provider() const { return std::get<0>(GetParam()); }
  JobOptions job() const { return {.consistency = std::get<1>(GetParam()), .block_bytes = 65536}; }
};
INSTANTIATE_TEST_SUITE_P(Providers, Loans,
                         ::testing::Combine(::testing::Values("shm", "tcp"),
                                            ::testing::Values(Consistency::kSync,
                                                              Consistency::kBounded,
                                                              Consistency::kAsync)));

TEST_P(Loans, AGradientMayBeRewrittenWhenPushReturns) {
  for (const bool in_place : {true, false}) {
    LateReader reader;
    Job job(provider(), this->job(), 1, [&](ServerOptions& server) { reader.add_to(server); });
    auto worker = job.worker();
    const auto w = must(worker.init("w", f32({kCount}), {}, kLate, soon()));
    const auto place = must(worker.allocate(f32({kCount}), soon()));
    std::vector<float> own(kCount);
    const auto gradient = in_place ? place.elements<float>() : std::span<float>(own);
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    must(worker.push(w, std::as_bytes(gradient), soon()));
    std::fill(gradient.begin(), gradient.end(), 100.0F);
    reader.rewritten = true;
    must(worker.end_step(soon()));
    must(worker.flush(soon()));
    EXPECT_EQ(floats(must(worker.pull(w, soon())), kCount), std::vector<float>(kCount, 1.0F))
        << (in_place ? "in place" : "from the program's memory");
  }
}

TEST_P(Loans, WhatPushPullBringsHasItsOwnGradient) {
  Job job(provider(), this->job());
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
  const auto place = must(worker.allocate(f32({kCount}), soon()));
  float sum = 0;
  for (int step = 1; step <= 100; ++step) {
    const auto gradient = place.elements<float>();
    std::fill(gradient.begin(), gradient.end(), static_cast<float>(step));
    sum += static_cast<float>(step);
    const auto got = floats(must(worker.push_pull(w, place.bytes(), soon())), kCount);
    ASSERT_EQ(got, std::vector<float>(kCount, sum)) << "step " << step;
  }
}

TEST_P(Loans, ALoanEndsWhenTheGradientWasRead) {
  if (job().consistency == Consistency::kSync) GTEST_SKIP() << "it ends with its step";
  LateReader reader;
  Job job(provider(), this->job(), 1, [&](ServerOptions& server) { reader.add_to(server); });
  auto worker = job.worker();
  const auto w = must(worker.init("w", f32({kCount}), {}, kLate, soon()));
  const auto place = must(worker.allocate(f32({kCount}), soon()));
  const auto gradient = place.elements<float>();
  std::fill(gradient.begin(), gradient.end(), 1.0F);
  {
    auto loan = must(worker.lend_gradient(w, place.bytes(), soon()));
    ASSERT_TRUE(until([&] { return reader.reading.load(); }));
    const Loan last = std::move(loan);
  }
  std::fill(gradient.begin(), gradient.end(), 100.0F);
  reader.rewritten = true;
  must(worker.flush(soon()));
  EXPECT_EQ(floats(must(worker.pull(w, soon())), kCount), std::vector<float>(kCount, 1.0F));
}

// Nobody reads a gradient before the other worker has ended the step.
TEST(LoansInStep, EndWhenTheStepIsApplied) {
  Job job("shm", {.workers = 2});
  auto other = job.worker(1);
  auto worker = job.worker(0);
  const auto w = must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
  const auto place = must(worker.allocate(f32({kCount}), soon()));
  const auto gradient = place.elements<float>();
  for (int step = 1; step <= 3; ++step) {
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    auto loan = must(worker.lend_gradient(w, place.bytes(), soon()));
    EXPECT_EQ(code_of(loan.release(soon())), Code::kFailedPrecondition);
    must(worker.end_step(soon()));
    EXPECT_EQ(code_of(loan.release(Deadline::after(20ms))), Code::kDeadlineExceeded);
    must(other.end_step(soon()));
    must(loan.release(soon()));
    std::fill(gradient.begin(), gradient.end(), 100.0F);
    EXPECT_EQ(floats(must(worker.pull(w, soon())), kCount),
              std::vector<float>(kCount, static_cast<float>(step)));
  }
  EXPECT_EQ(worker.stats().pushed_in_place, 3U);
}

// push() returns before the other worker ends the step, and the copy is not that of another step.
TEST(LoansInStep, AreNotNeededForMemoryThatIsUsedAgain) {
  Job job("shm", {.workers = 2});
  auto other = job.worker(1);
  auto worker = job.worker(0);
  const auto w = must(worker.init("w", f32({kCount}), {}, {UpdateKind::kSum}, soon()));
  const auto place = must(worker.allocate(f32({kCount}), soon()));
  const auto gradient = place.elements<float>();
  float sum = 0;
  for (int step = 1; step <= 10; ++step) {
    std::fill(gradient.begin(), gradient.end(), static_cast<float>(step));
    must(worker.push(w, place.bytes(), soon()));
    std::fill(gradient.begin(), gradient.end(), 100.0F);
    must(worker.end_step(soon()));
    std::fill(gradient.begin(), gradient.end(), 200.0F);
    must(other.end_step(soon()));
    sum += static_cast<float>(step);
    EXPECT_EQ(floats(must(worker.pull(w, soon())), kCount), std::vector<float>(kCount, sum));
  }
  EXPECT_EQ(worker.stats().pushed_in_place, 10U);
}

}  // namespace
}  // namespace ferry::ps::testing
