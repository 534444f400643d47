#include "ferry/models/emulate.h"

#include <gtest/gtest.h>

#include "ferry/models/emulate_internal.h"

namespace ferry::models {
namespace {

graph::Graph graph_of_model(const Model& model) {
  graph::Graph graph;
  graph::Builder builder(graph);
  (void)model.tower(builder);
  EXPECT_TRUE(builder.status());
  return graph;
}

Model timed_lenet() {
  auto model = *make_model("lenet", {.batch = 4});
  model.facts.seconds = 0.03;
  return model;
}

TEST(Emulation, CountsTheOperationsOfProducts) {
  const auto graph = graph_of_model(*make_model("mlp", {.batch = 4}));
  EXPECT_EQ(operations_of(graph), 2.0 * 4 * (784 * 256 + 256 * 256 + 256 * 10));
}

TEST(Emulation, HasAStageForEachProductWithItsVariables) {
  const auto stages = stages_of(graph_of_model(timed_lenet()));
  ASSERT_EQ(stages.size(), 4U);
  for (const auto& stage : stages) {
    EXPECT_EQ(stage.variables.size(), 2U);
    EXPECT_GT(stage.operations, 0);
  }
  EXPECT_EQ(stages[0].variables[0].name, "conv1/w");
  EXPECT_EQ(stages[3].variables[1].name, "fc2/b");
}

TEST(Emulation, KeepsTheVariablesAndSharesOutTheTime) {
  const auto model = timed_lenet();
  const auto emulated = emulate(model, 4);
  ASSERT_TRUE(emulated) << emulated.error().to_string();
  EXPECT_EQ(emulated->seconds, 0.03);
  EXPECT_FALSE(emulated->estimated);
  const auto real = graph_of_model(model);
  const auto graph = graph_of_model(emulated->model);
  double ns = 0;
  for (const auto& node : graph.nodes()) {
    if (node.op->name == "EmulatedLayer")
      ns += static_cast<double>(node.attributes.get_or<std::int64_t>("ns", 0) +
                                node.attributes.get_or<std::int64_t>("back_ns", 0));
    if (node.op->name != "Variable") continue;
    const auto same = real.find(node.name);
    ASSERT_TRUE(same) << node.name;
    EXPECT_EQ(real.spec({*same, 0}), graph.spec({node.id, 0})) << node.name;
  }
  EXPECT_NEAR(ns, 0.03e9, 10);
}

TEST(Emulation, GrowsWithTheBatchBeyond32) {
  auto model = timed_lenet();
  EXPECT_EQ(emulate(model, 64)->seconds, 0.06);
  EXPECT_EQ(emulate(model, 16)->seconds, 0.03);
  model.facts.grows_with_batch = false;
  EXPECT_EQ(emulate(model, 64)->seconds, 0.03);
}

TEST(Emulation, NeedsToKnowATime) {
  EXPECT_EQ(emulate(*make_model("lenet", {}), 4).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::models
