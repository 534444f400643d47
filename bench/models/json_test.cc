#include "bench/models/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::bench {
namespace {

PathFigures six_steps(const char* name, double seconds) {
  PathFigures path;
  path.path.name = name;
  path.step_seconds.assign(6, seconds);
  return path;
}

ModelResults gru_beside_grpc() {
  ModelFigures model;
  model.model = "gru";
  model.crossings = 44;
  model.computation = 0.03;
  model.paths = {six_steps("ferry", 0.04), six_steps("grpc", 0.08)};
  return {
      {model}, judge_models({model}), {{"executor", "an operator", "ns", {75, 70, 80, 6}, 1000}}};
}

TEST(ModelsJson, APathHasItsStepAndHowItComparesWithGrpc) {
  const auto report = nlohmann::json::parse(models_json({}, gru_beside_grpc(), {}));
  const auto& model = report["models"][0];
  EXPECT_EQ(model["crossings"], 44);
  EXPECT_DOUBLE_EQ(model["paths"][0]["step"]["median"], 0.04);
  EXPECT_DOUBLE_EQ(model["paths"][0]["times_grpc"]["median"], 2);
  EXPECT_FALSE(model["paths"][1].contains("times_grpc"));
}

TEST(ModelsJson, AVerdictSaysWhatIsComparedWithItsInterval) {
  const auto report = nlohmann::json::parse(models_json({}, gru_beside_grpc(), {}));
  ASSERT_EQ(report["verdicts"].size(), 1u);
  const auto& verdict = report["verdicts"][0];
  EXPECT_EQ(verdict["ours"], "ferry");
  EXPECT_EQ(verdict["other"], "grpc");
  EXPECT_DOUBLE_EQ(verdict["ratio"]["high"], 0.5);
  EXPECT_NEAR(verdict["of_computation"]["median"], 4 / 3.0, 1e-9);
  EXPECT_EQ(verdict["outcome"], "met");
  EXPECT_EQ(report["runtime"][0]["sentence"], "an operator");
  EXPECT_DOUBLE_EQ(report["runtime"][0]["low"], 70);
}

TEST(ModelsJson, AScaledModelHasIntervalAndBound) {
  const ScalePoint point{"lstm", "ferry", 8, {0.04, 0.03, 0.05, 6}, {0.9, 0.85, 0.95, 6}, 0.85};
  const auto report = nlohmann::json::parse(scaling_json({}, {point}, {}));
  EXPECT_EQ(report["tool"], "ferry bench models --scaling");
  EXPECT_DOUBLE_EQ(report["points"][0]["of_linear"]["low"], 0.85);
  EXPECT_DOUBLE_EQ(report["points"][0]["bound"], 0.85);
}

}  // namespace
}  // namespace ferry::bench
