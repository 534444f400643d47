#include "bench/ps/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::bench {
namespace {

PsFigure faster_than_another() {
  PsFigure figure{"rounds", "push + pull", "rounds/s", 10, false, {}, {}, {}};
  figure.ours = {220, 200, 210, 230, 240, 250};
  figure.other = {10, 10, 10, 10, 10, 10};
  return figure;
}

nlohmann::json json_of(const PsFigure& figure) {
  return nlohmann::json::parse(ps_json({{figure}, {}, {}}, {}))["figures"][0];
}

TEST(PsJson, AFigureHasItsIntervalsAndWhatItIsJudgedBy) {
  const auto figure = json_of(faster_than_another());
  EXPECT_DOUBLE_EQ(figure["ratio"]["median"], 22.5);
  EXPECT_DOUBLE_EQ(figure["ratio"]["low"], 20);
  EXPECT_DOUBLE_EQ(figure["ratio"]["high"], 25);
  EXPECT_DOUBLE_EQ(figure["ours_estimate"]["median"], 225);
  EXPECT_DOUBLE_EQ(figure["other_estimate"]["median"], 10);
  EXPECT_EQ(figure["compared"], true);
  EXPECT_EQ(figure["is_at_most"], false);
  EXPECT_DOUBLE_EQ(figure["bound"], 10);
  EXPECT_EQ(figure["verdict"], "met");
}

TEST(PsJson, WhatWasNotMeasuredSaysWhyAndHasNoRatio) {
  auto skipped = faster_than_another();
  skipped.skipped = "there is no ZeroMQ";
  const auto figure = json_of(skipped);
  EXPECT_EQ(figure["skipped"], "there is no ZeroMQ");
  EXPECT_EQ(figure["verdict"], "not measured");
  EXPECT_FALSE(figure.contains("ratio"));
}

TEST(PsJson, NothingMeasuredIsEmptyTables) {
  const auto report = nlohmann::json::parse(ps_json({}, {}));
  for (const char* table : {"figures", "speeds", "trainings"}) {
    EXPECT_TRUE(report[table].is_array()) << table;
    EXPECT_TRUE(report[table].empty()) << table;
  }
}

}  // namespace
}  // namespace ferry::bench
