#include <gtest/gtest.h>

#include "ferry/ps/pull_pace_internal.h"

namespace ferry::ps {
namespace {

using std::chrono::milliseconds;

PullPace paced(int compute_ms, int push_ms, int pull_ms, int times = 8) {
  PullPace pace;
  for (int each = 0; each < times; ++each) {
    pace.computed(milliseconds(compute_ms));
    pace.pushed(milliseconds(push_ms));
    pace.pulled(milliseconds(pull_ms));
  }
  return pace;
}

TEST(PullPace, PullsAtOnceWhileNothingIsKnown) {
  EXPECT_EQ(PullPace().pull_after(), Nanos(0));
  EXPECT_FALSE(PullPace().push_is_in_the_way());
}

TEST(PullPace, APullEndsWithTheComputation) {
  EXPECT_EQ(paced(100, 10, 30).pull_after(), milliseconds(70));
  EXPECT_EQ(paced(100, 10, 30, 1).pull_after(), milliseconds(70));
  EXPECT_FALSE(paced(100, 10, 30).push_is_in_the_way());
  EXPECT_FALSE(paced(100, 70, 30).push_is_in_the_way());
}

TEST(PullPace, WhereCommunicationIsLongerThereIsNoBubbleAndBothGoAtOnce) {
  EXPECT_EQ(paced(100, 50, 100).pull_after(), Nanos(0));
  EXPECT_EQ(paced(100, 50, 170).pull_after(), Nanos(0));
  EXPECT_TRUE(paced(100, 50, 170).push_is_in_the_way());
  // Each fits, but not one after the other.
  EXPECT_TRUE(paced(100, 80, 30).push_is_in_the_way());
  EXPECT_EQ(paced(100, 80, 30).pull_after(), milliseconds(70));
}

TEST(PullPace, FollowsWhatChanges) {
  auto pace = paced(100, 10, 30);
  for (int each = 0; each < 8; ++each) pace.computed(milliseconds(40));
  EXPECT_EQ(pace.pull_after(), milliseconds(10));
}

// Computation of 80 and 120 in turn deviates by 20 from 100, pulls of 8 and 12 by 2 from 10.
TEST(PullPace, WhatVariesIsPulledEarlier) {
  PullPace pace;
  for (int each = 0; each < 8; ++each) {
    pace.computed(milliseconds(each % 2 == 0 ? 80 : 120));
    pace.pulled(milliseconds(each % 2 == 0 ? 8 : 12));
  }
  EXPECT_EQ(pace.pull_after(), milliseconds(100 - 2 * 20 - 10 - 2 * 2));
}

// Simulated: what is pulled is never late but for steps that end sooner than all before, and is
// half as old or less as what is pulled at the beginning of a step.
TEST(PullPace, HalvesTheAgeOfWhatIsPulledAndIsSeldomLate) {
  PullPace pace;
  std::uint64_t random = 1;
  const auto about = [&](int us) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return Nanos(us * (950 + static_cast<std::int64_t>((random >> 33) % 101)));
  };
  Nanos age{};
  Nanos age_at_once{};
  int late = 0;
  constexpr int kSteps = 1000;
  for (int each = 0; each < kSteps; ++each) {
    const auto compute = about(20'000);
    const auto push = about(2'000);
    const auto pull = about(3'000);
    const auto begin = std::max(push, pace.pull_after());
    const auto end = std::max(compute, begin + pull);
    if (end > compute) ++late;
    age += end - begin;
    age_at_once += compute - push;
    pace.computed(compute);
    pace.pushed(push);
    pace.pulled(pull);
  }
  EXPECT_LT(age * 2, age_at_once);
  EXPECT_LT(late, kSteps / 20);
}

}  // namespace
}  // namespace ferry::ps
