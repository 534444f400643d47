#include "ferry/models/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ferry/graph/partition.h"
#include "ferry/models/data.h"
#include "ferry/ops/initial.h"

namespace ferry::models {
namespace {

Model model_of(const std::string& name, std::int64_t batch) {
  auto model = make_model(name, {.batch = batch});
  EXPECT_TRUE(model) << model.error().to_string();
  return model ? *std::move(model) : Model();
}

// The variables of a model.
struct Sum {
  int variables = 0;
  std::int64_t elements = 0;
  double mib() const { return static_cast<double>(elements) * 4 / (1 << 20); }
  double millions() const { return static_cast<double>(elements) / 1e6; }
};
Sum sum_of(const std::string& name) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto tower = model_of(name, 2).tower(builder);
  EXPECT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_TRUE(tower.loss);
  Sum sum;
  for (const auto& node : graph.nodes()) {
    if (node.op->name != "Variable") continue;
    ++sum.variables;
    sum.elements += node.outputs[0].shape.elements();
  }
  return sum;
}

TEST(Models, AreAsLargeAsInThePaper) {
  int known = 0;
  for (const auto& name : model_names()) {
    SCOPED_TRACE(name);
    const auto facts = model_of(name, 2).facts;
    if (facts.paper_mib == 0) continue;
    ++known;
    const auto sum = sum_of(name);
    EXPECT_EQ(sum.variables, facts.paper_variables);
    EXPECT_NEAR(sum.mib(), facts.paper_mib, 0.01);
    EXPECT_GT(facts.seconds, 0);
  }
  EXPECT_EQ(known, 6);
}

TEST(Models, OfAProgramsOwnGoByTheirNames) {
  const auto make = [](const ModelOptions& options) -> Result<Model> {
    auto model = FERRY_TRY(make_model("mlp", options));
    model.feeds = Feeds::kOwn;
    return model;
  };
  ASSERT_TRUE(register_model("models-test-own", make));
  const auto model = make_model("models-test-own", {.batch = 7});
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->inputs[0].spec.shape.dim(0), 7);
  EXPECT_EQ(open_data(*model, {}).error().code(), Code::kInvalidArgument) << "it has no data";
  EXPECT_EQ(register_model("models-test-own", make).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(register_model("lenet", make).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(register_model("x.onnx", make).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(register_model("", make).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(register_model("none", {}).error().code(), Code::kInvalidArgument);
}

TEST(Models, AreAsLargeAsPublished) {
  EXPECT_NEAR(sum_of("resnet-50").millions(), 25.557, 0.001);
  EXPECT_NEAR(sum_of("resnet-152").millions(), 60.193, 0.001);
  EXPECT_NEAR(sum_of("googlenet").millions(), 6.999, 0.001);
  EXPECT_NEAR(sum_of("inception-v4").millions(), 42.68, 0.1);
}

TEST(Models, KnowWhoseTimeIsLikeTheirs) {
  for (const auto& name : model_names()) {
    SCOPED_TRACE(name);
    const auto facts = model_of(name, 2).facts;
    if (facts.like.empty()) continue;
    EXPECT_EQ(facts.seconds, 0);
    EXPECT_GT(model_of(facts.like, 2).facts.seconds, 0);
  }
}

graph::Replicated replicated(const std::string& name, std::int64_t batch, std::size_t workers,
                             std::size_t servers) {
  graph::ReplicateOptions options;
  options.cluster = graph::ClusterSpec::of({{"ps", servers}, {"worker", workers}});
  auto program = graph::replicate(model_of(name, batch).tower, options);
  EXPECT_TRUE(program) << program.error().to_string();
  return program ? *std::move(program) : graph::Replicated();
}

TEST(Models, CanBeReplicatedAndCut) {
  for (const auto& name : model_names()) {
    SCOPED_TRACE(name);
    const auto program = replicated(name, 2, 2, 2);
    ASSERT_EQ(program.workers.size(), 2U);
    EXPECT_EQ(program.trained.size(), static_cast<std::size_t>(sum_of(name).variables));
    const auto parts = graph::partition(program.graph);
    ASSERT_TRUE(parts) << parts.error().to_string();
    EXPECT_EQ(parts->parts.size(), 4U);
    EXPECT_GE(parts->crossings.size(), 4 * program.trained.size());
  }
}

// One step of one worker; every variable gets a new value.
class ModelSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelSteps, Run) {
  constexpr std::int64_t kBatch = 2;
  const auto data = open_data(model_of(GetParam(), kBatch), {.batch = kBatch});
  if (!data) GTEST_SKIP() << data.error().message();
  const auto program = replicated(GetParam(), kBatch, 1, 0);
  ASSERT_EQ(program.workers.size(), 1U);
  const auto& worker = program.workers[0];
  auto variables = ops::initial_values(program.graph, 1);
  ASSERT_TRUE(variables) << variables.error().to_string();
  ops::Tensors feeds;
  for (const auto& [name, value] : (*data)->of_step(1))
    feeds[program.graph.node(worker.inputs.at(name)).name] = value;
  std::vector<graph::Output> fetches = {worker.loss};
  for (const auto update : worker.updates) fetches.push_back({update, 0});
  const auto found = ops::evaluate(program.graph, *variables, feeds, fetches);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(std::isfinite((*found)[0].elements<float>()[0]));
  EXPECT_GT((*found)[0].elements<float>()[0], 0);
  for (const auto& [name, value] : *variables)
    EXPECT_TRUE(std::isfinite(value.elements<float>()[0])) << name;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  auto name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, ModelSteps, ::testing::ValuesIn(model_names()), test_name);

}  // namespace
}  // namespace ferry::models
