#include "ferry/cli/common/stats.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry::cli {
namespace {

TEST(BenchStats, MedianOfOddEvenAndNothing) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(BenchStats, SpreadIsHalfTheDistanceOfTheQuartiles) {
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 5}), 1);
  EXPECT_DOUBLE_EQ(spread({7, 7, 7}), 0);
  // One wild value does not move it.
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 1000}), 1);
}

TEST(BenchStats, FewValuesGiveAllOfThemAsTheInterval) {
  const auto found = estimate({5, 1, 3});
  EXPECT_DOUBLE_EQ(found.median, 3);
  EXPECT_DOUBLE_EQ(found.low, 1);
  EXPECT_DOUBLE_EQ(found.high, 5);
  EXPECT_LT(found.count, kLeastForInterval);
}

// The ranks that tables of the sign test give for 95 %.
TEST(BenchStats, IntervalEndsAtTheRanksOfTheSignTest) {
  const auto interval = [](int n) {
    std::vector<double> values;
    for (int i = n; i >= 1; --i) values.push_back(i);
    const auto found = estimate(values);
    return std::pair(found.low, found.high);
  };
  EXPECT_EQ(interval(6), std::pair(1.0, 6.0));
  EXPECT_EQ(interval(9), std::pair(2.0, 8.0));
  EXPECT_EQ(interval(15), std::pair(4.0, 12.0));
  EXPECT_EQ(interval(20), std::pair(6.0, 15.0));
  EXPECT_EQ(interval(50), std::pair(18.0, 33.0));
}

TEST(BenchStats, IntervalHoldsTheTrueMedianAboutNinetyFiveTimesInAHundred) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> skewed(0, 1);
  int inside = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> values(11);
    for (auto& value : values) value = skewed(random);
    const auto found = estimate(values);
    inside += found.low <= 1 && 1 <= found.high;
  }
  EXPECT_GE(inside, 1900);
  EXPECT_LT(inside, 2000);
}

TEST(BenchStats, RatiosArePairedSoCommonNoiseCancels) {
  // The machine was ten times slower in every second repetition; the ratio did not change.
  const std::vector<double> ours = {2, 20, 2, 20, 2, 20};
  const std::vector<double> theirs = {1, 10, 1, 10, 1, 10, 99};
  const auto ratio = ratio_of_pairs(ours, theirs);
  EXPECT_DOUBLE_EQ(ratio.low, 2);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
  EXPECT_EQ(ratio.count, 6);
}

TEST(BenchStats, RatioLeavesOutPairsWithoutADenominator) {
  EXPECT_EQ(ratio_of_pairs(std::vector<double>{1, 1}, std::vector<double>{0, 2}).count, 1);
}

}  // namespace
}  // namespace ferry::cli
