#include "bench/driver/facts.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::bench {
namespace {

FactResult result_of(std::vector<double> values, double bound) {
  return {{.id = "f", .sentence = "a figure", .unit = Fact::Unit::kCount, .bound = bound},
          std::move(values),
          ""};
}

TEST(BenchFacts, IdsAreUniqueAndEachKnowsItsProgram) {
  std::set<std::string> ids;
  for (const auto& fact : all_facts()) {
    EXPECT_TRUE(ids.insert(fact.id).second) << fact.id;
    ASSERT_GE(fact.args.size(), 2u);
    EXPECT_EQ(fact.args[0], "fact");
  }
}

TEST(BenchFacts, EveryRatioOfMessagesNamesFactsThatExist) {
  std::set<std::string> ids;
  for (const auto& fact : message_facts(false)) {
    EXPECT_TRUE(ids.insert(fact.id).second) << fact.id;
    EXPECT_FALSE(fact.bounded()) << fact.id;
    EXPECT_EQ(fact.program.empty(), fact.args.at(0) == "fact") << fact.id;
  }
  for (const auto& ratio : message_fact_ratios())
    EXPECT_TRUE(ids.count(ratio.ours) == 1 && ids.count(ratio.theirs) == 1) << ratio.id;
  for (const auto& fact : message_facts(true)) EXPECT_TRUE(ids.count(fact.id)) << fact.id;
}

TEST(BenchFacts, ARatioIsOfTheTimesWithinEachRepetition) {
  auto ours = result_of({10, 20, 40}, Fact::kNoBound);
  ours.fact.id = "ours";
  auto theirs = result_of({5, 5}, Fact::kNoBound);
  theirs.fact.id = "theirs";
  const auto found =
      fact_ratios({{"r", "", "ours", "theirs", 0.4}, {"s", "", "ours", "nobody"}}, {ours, theirs});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].values, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(judge_fact(found[0]), Outcome::kMet);
}

TEST(BenchFacts, AFigureWithoutABoundIsNeverMissed) {
  const std::vector<FactResult> results = {result_of({7, 7, 7, 7, 7, 7}, Fact::kNoBound)};
  EXPECT_TRUE(facts_missed(results).empty());
  EXPECT_EQ(fact_table(results).find("inf"), std::string::npos);
  EXPECT_EQ(fact_table(results).find("met"), std::string::npos);
}

TEST(BenchFacts, SelectsByProvider) {
  for (const auto& fact : select_facts(all_facts(), {"tcp"})) EXPECT_EQ(fact.provider, "tcp");
  EXPECT_FALSE(select_facts(all_facts(), {"tcp"}).empty());
  EXPECT_TRUE(select_facts(all_facts(), {"verbs"}).empty());
}

TEST(BenchFacts, IsMissedOnlyWhenTheWholeIntervalIsAbove) {
  EXPECT_EQ(judge_fact(result_of({0, 0, 0, 0, 0, 0, 0}, 0)), Outcome::kMet);
  EXPECT_EQ(judge_fact(result_of({1, 1, 1, 1, 1, 1, 1}, 0)), Outcome::kMissed);
  EXPECT_EQ(judge_fact(result_of({0, 1, 1, 1, 1, 1, 1}, 0)), Outcome::kOpen);
  EXPECT_EQ(judge_fact(result_of({1, 1}, 0)), Outcome::kOpen);
}

TEST(BenchFacts, ReadsAFigureOrTheSentenceWhyNot) {
  EXPECT_DOUBLE_EQ(parse_fact("ok value=1.5e3").value(), 1500);
  EXPECT_EQ(parse_fact("error ptrace is refused").error().message(), "ptrace is refused");
  for (const char* line : {"", "ok", "ok value=", "ok value=1x", "value=1"})
    EXPECT_FALSE(parse_fact(line).has_value()) << line;
}

TEST(BenchFacts, TheTableAndTheMissesNameTheFact) {
  const std::vector<FactResult> results = {result_of({2, 2, 2, 2, 2, 2}, 1)};
  EXPECT_NE(fact_table(results).find("a figure"), std::string::npos);
  EXPECT_NE(fact_table(results).find("MISSED"), std::string::npos);
  ASSERT_EQ(facts_missed(results).size(), 1u);
  EXPECT_EQ(facts_missed(results)[0].rfind("f: a figure", 0), 0u);
  EXPECT_EQ(fact_table({}), "");
  EXPECT_NE(fact_table({result_of({1, 2, 3}, 9)}).find("min 1, max 3"), std::string::npos);
}

// A program that prints what its first argument says.
class BenchFactsProgram : public ::testing::Test {
 protected:
  BenchFactsProgram() {
    char name[] = "/tmp/ferry-facts-XXXXXX";
    folder_ = mkdtemp(name);
    std::ofstream(path()) << "#!/bin/sh\necho \"$1\"\n";
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  ~BenchFactsProgram() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/program"; }

  std::vector<FactResult> run(const std::vector<std::string>& answers, int repeat) {
    FactPlan plan;
    for (const auto& answer : answers) plan.facts.push_back({.id = answer, .args = {answer}});
    plan.program = path();
    plan.repeat = repeat;
    cli::InterruptGuard guard;
    return measure_facts(plan, [this](const Fact& fact, int) { order_ += fact.id.back(); });
  }

  std::string folder_;
  std::string order_;
};

TEST_F(BenchFactsProgram, TakesTurnsInEachRepetition) {
  const auto results = run({"ok value=1", "ok value=2"}, 2);
  EXPECT_EQ(order_, "1212");
  EXPECT_EQ(results[0].values, (std::vector<double>{1, 1}));
  EXPECT_EQ(results[1].values, (std::vector<double>{2, 2}));
}

TEST_F(BenchFactsProgram, WhatFailedOnceIsNotAskedAgainAndIsNoted) {
  const auto results = run({"error no tracing here", "ok value=2"}, 3);
  EXPECT_EQ(order_, "e222");
  ASSERT_EQ(facts_left_out(results).size(), 1u);
  EXPECT_NE(facts_left_out(results)[0].find("no tracing here"), std::string::npos);
}

}  // namespace
}  // namespace ferry::bench
