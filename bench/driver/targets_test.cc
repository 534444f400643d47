#include "bench/driver/targets.h"

#include <gtest/gtest.h>

namespace ferry::bench {
namespace {

const std::vector<double> kSteady(8, 100);

std::vector<double> all(double value) { return std::vector<double>(8, value); }

Measurements measured_with(const std::vector<double>& ours, const std::vector<double>& plain,
                           const std::vector<double>& nt) {
  Measurements measured;
  measured.sizes = {1024};
  measured.cells[{"ours", 1024}] = {ours, ours, 1, ""};
  measured.cells[{"plain", 1024}] = {plain, plain, 1, ""};
  measured.cells[{"nt", 1024}] = {nt, nt, 1, ""};
  return measured;
}

Target target_of(double bound) { return {"t", "", "ours", {"plain", "nt"}, 1, 4096, bound}; }

Verdict only_verdict(const std::vector<Target>& targets, const Measurements& measured) {
  const auto verdicts = judge(targets, measured);
  EXPECT_EQ(verdicts.size(), 1u);
  return verdicts.empty() ? Verdict{} : verdicts[0];
}

TEST(BenchTargets, IsMissedWhenTheWholeIntervalIsAboveTheBound) {
  const std::vector<Target> targets = {target_of(1.1)};
  const auto verdict = only_verdict(targets, measured_with(all(120), kSteady, all(300)));
  EXPECT_EQ(verdict.outcome, Outcome::kMissed);
  EXPECT_EQ(verdict.denominator, "plain");
}

TEST(BenchTargets, ComparesWithTheFasterOfTheDenominators) {
  const std::vector<Target> targets = {target_of(1.1)};
  EXPECT_EQ(only_verdict(targets, measured_with(all(100), kSteady, all(50))).denominator, "nt");
}

TEST(BenchTargets, IsOpenWhenTheIntervalReachesTheBound) {
  const std::vector<Target> targets = {target_of(1.1)};
  const std::vector<double> noisy = {100, 105, 120, 120, 120, 120, 120, 130};
  // The interval of eight values is between the smallest and the largest.
  EXPECT_EQ(only_verdict(targets, measured_with(noisy, kSteady, all(300))).outcome, Outcome::kOpen);
}

TEST(BenchTargets, IsNeverMissedByTooFewRepetitions) {
  const std::vector<Target> targets = {target_of(1.1)};
  const std::vector<double> five(5, 500);
  EXPECT_EQ(only_verdict(targets, measured_with(five, kSteady, all(300))).outcome, Outcome::kOpen);
}

TEST(BenchTargets, IsMetWhenTheMedianIsWithin) {
  const std::vector<Target> targets = {target_of(1.25)};
  EXPECT_EQ(only_verdict(targets, measured_with(all(125), kSteady, all(300))).outcome,
            Outcome::kMet);
}

TEST(BenchTargets, AgainstEachJudgesEveryPeerThatIsThere) {
  std::vector<Target> targets = {target_of(1)};
  targets[0].against = Target::Against::kEach;
  targets[0].denominators.push_back("not installed");
  const auto verdicts = judge(targets, measured_with(all(150), kSteady, all(300)));
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kMissed);
  EXPECT_EQ(verdicts[1].outcome, Outcome::kMet);
}

TEST(BenchTargets, SizesOutsideAreNotJudged) {
  std::vector<Target> targets = {target_of(1.1)};
  targets[0].min_bytes = 2048;
  const auto verdicts = judge(targets, measured_with(all(500), kSteady, kSteady));
  EXPECT_TRUE(verdicts.empty());
  EXPECT_EQ(not_judged(targets, verdicts).size(), 1u);
}

TEST(BenchTargets, CpuIsJudgedByCpu) {
  std::vector<Target> targets = {target_of(1.1)};
  targets[0].metric = Target::Metric::kCpu;
  auto measured = measured_with(all(500), kSteady, all(300));
  measured.cells[{"ours", 1024}].cpu_ns = kSteady;
  EXPECT_EQ(only_verdict(targets, measured).outcome, Outcome::kMet);
}

TEST(BenchTargets, ATimeIsJudgedByTheClockAlone) {
  Target target{"t", "", "ours", {}, 1, 4096, 1, Target::Against::kBest, Target::Metric::kUs};
  const std::vector<Target> targets = {target};
  EXPECT_EQ(only_verdict(targets, measured_with(all(999), kSteady, kSteady)).outcome,
            Outcome::kMet);
  const auto verdict = only_verdict(targets, measured_with(all(1500), kSteady, kSteady));
  EXPECT_EQ(verdict.outcome, Outcome::kMissed);
  EXPECT_DOUBLE_EQ(verdict.ratio.median, 1.5);
  EXPECT_EQ(not_judged(targets, {}).at(0), "t: ours was not measured");
}

}  // namespace
}  // namespace ferry::bench
