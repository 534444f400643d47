#include "bench/report/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::bench {
namespace {

TEST(ReportOrigin, NamesToolCommandCommitMachineAndDate) {
  const auto origin = origin_json("ferry bench x", cli::read_setup());
  EXPECT_EQ(origin["tool"], "ferry bench x");
  // That of these tests, as if `ferry bench` had been asked.
  EXPECT_EQ(origin["command"][0], "ferry");
  EXPECT_EQ(origin["command"][1], "bench");
  EXPECT_THAT(origin["commit"], ::testing::MatchesRegex("[0-9a-f]{10}(-dirty)?|unknown"));
  EXPECT_THAT(origin["version"], ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_GT(origin["setup"]["cores"], 0);
  EXPECT_NE(origin["setup"]["cpu"], "");
  EXPECT_THAT(origin["setup"]["date"], ::testing::MatchesRegex("[0-9-]{10} [0-9]{2}:[0-9]{2} UTC"));
}

TEST(ReportOrigin, AnIntervalIsCalledOneOnlyWithEnoughRepetitions) {
  EXPECT_TRUE(estimate_json({2, 1, 3, 6}).contains("low"));
  EXPECT_FALSE(estimate_json({2, 1, 3, 5}).contains("low"));
  EXPECT_DOUBLE_EQ(estimate_json({2, 1, 3, 5})["max"], 3);
}

}  // namespace
}  // namespace ferry::bench
