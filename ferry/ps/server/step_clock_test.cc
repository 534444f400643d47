#include <gtest/gtest.h>

#include <random>

#include "ferry/ps/server/step_clock_internal.h"

namespace ferry::ps {
namespace {

using Decision = StepClock::Decision;

JobOptions job_of(std::uint32_t workers, Consistency consistency = Consistency::kSync) {
  JobOptions job;
  job.workers = workers;
  job.consistency = consistency;
  return job;
}

// All who count end the open step, and it is applied.
void finish_step(StepClock& clock, const std::vector<std::uint32_t>& ranks) {
  for (const auto rank : ranks)
    ASSERT_EQ(clock.end_step(rank, clock.now() + 1, clock.attempt()), Decision::kTake) << rank;
  ASSERT_TRUE(clock.is_step_complete());
  clock.tick();
}

TEST(StepClockTest, JudgesGradientsByStepAndAttempt) {
  StepClock clock(job_of(1));
  finish_step(clock, {0});
  ASSERT_TRUE(clock.restart({.attempt = 3, .step = 2}));
  struct Case {
    std::uint64_t step;
    std::uint32_t attempt;
    Decision decision;
  };
  for (const auto& each :
       {Case{1, 3, Decision::kBreach}, Case{1, 0, Decision::kBreach}, Case{2, 3, Decision::kTake},
        Case{2, 0, Decision::kIgnore}, Case{2, 4, Decision::kIgnore}, Case{3, 3, Decision::kWait},
        Case{~std::uint64_t{0}, 3, Decision::kWait}})
    EXPECT_EQ(clock.judge_gradient(each.step, each.attempt), each.decision)
        << "step " << each.step << ", attempt " << each.attempt;
}

TEST(StepClockTest, TakesGradientsOfAnyStepWithoutStepsInCommon) {
  const StepClock clock(job_of(2, Consistency::kAsync));
  EXPECT_EQ(clock.judge_gradient(0, 9), Decision::kTake);
  EXPECT_EQ(clock.judge_gradient(100, 0), Decision::kTake);
}

TEST(StepClockTest, AStepIsCompleteWhenAllHaveEndedIt) {
  StepClock clock(job_of(2));
  EXPECT_FALSE(clock.is_step_complete());
  EXPECT_EQ(clock.end_step(1, 1, 0), Decision::kTake);
  EXPECT_FALSE(clock.is_step_complete());
  EXPECT_TRUE(clock.waits_for(0));
  EXPECT_FALSE(clock.waits_for(1));
  EXPECT_TRUE(clock.waits_for_lower(1));
  EXPECT_FALSE(clock.waits_for_lower(0));
  EXPECT_EQ(clock.end_step(1, 2, 0), Decision::kWait);
  EXPECT_EQ(clock.end_step(1, 1, 0), Decision::kBreach);  // twice
  EXPECT_EQ(clock.end_step(0, 1, 7), Decision::kIgnore);
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_TRUE(clock.is_step_complete());
  EXPECT_EQ(clock.count_members(), 2U);
  clock.tick();
  EXPECT_EQ(clock.now(), 1U);
  EXPECT_FALSE(clock.is_step_complete());
}

TEST(StepClockTest, NoStepIsCompleteWhileItIsHeld) {
  StepClock clock(job_of(1));
  clock.hold();
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_FALSE(clock.is_step_complete());
  clock.release();
  EXPECT_TRUE(clock.is_step_complete());
}

TEST(StepClockTest, WithoutStepsInCommonTheClockIsThatOfTheSlowest) {
  StepClock clock(job_of(2, Consistency::kAsync));
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_EQ(clock.end_step(0, 2, 0), Decision::kTake);
  EXPECT_EQ(clock.end_step(0, 4, 0), Decision::kBreach);  // one is missing
  EXPECT_FALSE(clock.move_to_slowest());
  EXPECT_EQ(clock.end_step(1, 1, 0), Decision::kTake);
  EXPECT_TRUE(clock.move_to_slowest());
  EXPECT_EQ(clock.now(), 1U);
  // The slowest leaves.
  clock.depart(1, 1);
  EXPECT_TRUE(clock.move_to_slowest());
  EXPECT_EQ(clock.now(), 2U);
}

TEST(StepClockTest, AWorkerThatDepartsBeforeTheOpenStepIsNotWaitedFor) {
  StepClock clock(job_of(2));
  finish_step(clock, {0, 1});
  EXPECT_EQ(clock.end_step(0, 2, 0), Decision::kTake);
  EXPECT_TRUE(clock.depart(1, 1));  // what it pushed to step 2 is dropped
  EXPECT_TRUE(clock.is_step_complete());
  EXPECT_EQ(clock.count_members(), 1U);
  EXPECT_EQ(clock.last_of(1), 1U);
}

TEST(StepClockTest, AWorkerThatHasEndedTheOpenStepElsewhereCountsInIt) {
  StepClock clock(job_of(2));
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_FALSE(clock.depart(1, 1));  // another shard has heard its end of step 1
  EXPECT_TRUE(clock.is_step_complete());
  EXPECT_EQ(clock.count_members(), 2U);
  clock.tick();
  EXPECT_EQ(clock.count_members(), 1U);
}

TEST(StepClockTest, ANewWorkerCountsAfterTheStepItWasAdmittedAt) {
  auto job = job_of(2);
  job.start_with = 1;
  StepClock clock(job);
  finish_step(clock, {0});
  EXPECT_EQ(clock.last_of(1), 0U);
  clock.admit(1, 2);
  EXPECT_FALSE(clock.waits_for(1));
  finish_step(clock, {0});
  EXPECT_TRUE(clock.waits_for(1));
  EXPECT_EQ(clock.end_step(1, 3, 0), Decision::kTake);
}

// The former one counts in step 3, which it has ended; the next one counts from step 4 on.
TEST(StepClockTest, ARankThatIsTakenAgainCountsForBothInTheirSteps) {
  StepClock clock(job_of(2));
  finish_step(clock, {0, 1});
  finish_step(clock, {0, 1});
  EXPECT_EQ(clock.end_step(1, 3, 0), Decision::kTake);
  EXPECT_FALSE(clock.depart(1, 3));
  clock.admit(1, 3);
  EXPECT_EQ(clock.count_members(), 2U);
  EXPECT_FALSE(clock.waits_for(1));
  finish_step(clock, {0});
  EXPECT_TRUE(clock.waits_for(1));
}

TEST(StepClockTest, ARestartTakesTheEndsOfTheOpenStepBack) {
  StepClock clock(job_of(2));
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_FALSE(clock.depart(1, 1));
  EXPECT_TRUE(clock.restart({.attempt = 1, .step = 1}));
  EXPECT_EQ(clock.attempt(), 1U);
  EXPECT_TRUE(clock.waits_for(0));
  EXPECT_FALSE(clock.waits_for(1));  // it is dead, and cannot push the step again
  EXPECT_FALSE(clock.restart({.attempt = 1, .step = 1}));  // said twice
  finish_step(clock, {0});
  EXPECT_EQ(clock.count_members(), 1U);
}

TEST(StepClockTest, ARestartOfALaterStepWaitsForIt) {
  StepClock clock(job_of(1));
  EXPECT_FALSE(clock.restart({.attempt = 2, .step = 2}));
  EXPECT_EQ(clock.attempt(), 0U);
  EXPECT_FALSE(clock.restart({.attempt = 1, .step = 3}));  // older, said again
  EXPECT_EQ(clock.end_step(0, 1, 0), Decision::kTake);
  EXPECT_TRUE(clock.tick());
  EXPECT_EQ(clock.attempt(), 2U);
  EXPECT_EQ(clock.judge_gradient(2, 0), Decision::kIgnore);
  EXPECT_EQ(clock.judge_gradient(2, 2), Decision::kTake);
}

TEST(StepClockTest, GoesOnFromTheStateOfAnother) {
  StepClock clock(job_of(2));
  finish_step(clock, {0, 1});
  clock.depart(1, 1);
  StepClock copy(job_of(2));
  copy.set_state(clock.state());
  finish_step(copy, {0});
  EXPECT_EQ(copy.now(), 2U);
}

// Whatever happens: the clock never goes back, nor does the attempt, and a step is complete only if
// nobody who counts is waited for.
TEST(StepClockTest, KeepsItsInvariantsInRandomRuns) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
    StepClock clock(job_of(3));
    for (int event = 0; event < 200; ++event) {
      const auto before = clock.now();
      const auto attempt = clock.attempt();
      const auto rank = random() % 3;
      const auto step = before + random() % 3;
      switch (random() % 6) {
        case 0:
          clock.depart(rank, step);
          break;
        case 1:
          clock.admit(rank, step);
          break;
        case 2:
          clock.restart({.attempt = attempt + random() % 3, .step = step});
          break;
        default:
          clock.end_step(rank, step, attempt - random() % 2);
      }
      if (clock.is_step_complete()) {
        for (std::uint32_t each = 0; each < 3; ++each) ASSERT_FALSE(clock.waits_for(each)) << seed;
        ASSERT_GT(clock.count_members(), 0U) << seed;
        clock.tick();
        ASSERT_EQ(clock.now(), before + 1) << seed;
      } else {
        ASSERT_EQ(clock.now(), before) << seed;
      }
      ASSERT_GE(clock.attempt(), attempt) << seed;
    }
  }
}

}  // namespace
}  // namespace ferry::ps
