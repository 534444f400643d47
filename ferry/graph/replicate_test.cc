#include "ferry/graph/replicate.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"
#include "ferry/graph/graph_text.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using Names = std::vector<std::string>;

tensor::Spec floats(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kF32, *Shape::of(dims)};
}

//                ids -> Embedding(table) -> * -> MatMul(w) -> BatchNorm -> loss
//                                           x                     |
//                                                            UpdateAverage
Tower small_model(Builder& builder) {
  const auto ids = builder.input("ids", {ElementType::kI32, *Shape::of({-1})});
  const auto x = builder.input("x", floats({-1, 4}));
  const auto labels = builder.input("labels", {ElementType::kI32, *Shape::of({-1})});
  const auto table = builder.variable("table", floats({100, 4}), {Initial::Kind::kNormal, 0.1});
  const auto w = builder.variable("w", floats({4, 3}), {Initial::Kind::kGlorot});
  const auto scale = builder.variable("scale", floats({3}), {Initial::Kind::kConstant, 1});
  const auto shift = builder.variable("shift", floats({3}));
  const auto average = builder.variable("average", floats({3}));
  const auto h = batch_norm(matmul(embedding(table, ids) * x, w), scale, shift);
  update_average(average, h.at(1), 0.99);
  return {mean(softmax_cross_entropy(h, labels)), {{"accuracy", accuracy(h, labels)}}};
}

ReplicateOptions two_of_each() {
  ReplicateOptions options;
  options.cluster = ClusterSpec::of({{"ps", 2}, {"worker", 2}});
  return options;
}

Names names_in(const Graph& graph, const std::vector<NodeId>& ids) {
  Names names;
  for (const auto id : ids) names.push_back(graph.node(id).name);
  return names;
}

TEST(Replicas, ShareVariablesAndUpdateThemTogether) {
  const auto made = replicate(small_model, two_of_each());
  ASSERT_TRUE(made) << made.error().to_string();
  const auto& graph = made->graph;
  ASSERT_EQ(made->workers.size(), 2U);
  EXPECT_EQ(names_in(graph, made->trained), (Names{"table", "w", "scale", "shift"}));
  EXPECT_EQ(names_in(graph, made->workers[1].updates),
            (Names{"worker1/average/UpdateAverage", "table/ApplySgdSparse", "w/ApplySgd",
                   "scale/ApplySgd", "shift/ApplySgd"}));
  const auto& update = graph.node(*graph.find("w/ApplySgd"));
  EXPECT_EQ(update.inputs.size(), 4U);
  EXPECT_EQ(*update.attributes.get<double>("scale"), 0.5);
  EXPECT_EQ(update.task, "/job:ps/task:1");
  // Each worker's gradient is made where the worker is.
  EXPECT_EQ(graph.node(update.inputs[2].node).task, "/job:worker/task:0");
  EXPECT_EQ(graph.node(update.inputs[3].node).task, "/job:worker/task:1");
  EXPECT_EQ(graph.node(update.inputs[1].node).task, update.task);
}

TEST(Replicas, LookTablesUpWhereTheyAre) {
  auto options = two_of_each();
  const auto beside = replicate(small_model, options);
  options.look_up_beside_tables = false;
  const auto apart = replicate(small_model, options);
  ASSERT_TRUE(beside && apart);
  for (const auto* name : {"worker1/Embedding", "worker1/gradients/EmbeddingGrad"}) {
    EXPECT_EQ(beside->graph.node(*beside->graph.find(name)).task, "/job:ps/task:0");
    EXPECT_EQ(apart->graph.node(*apart->graph.find(name)).task, "/job:worker/task:1");
  }
}

TEST(Replicas, HaveInputsLossesAndMetricsOfTheirOwn) {
  const auto made = replicate(small_model, two_of_each());
  ASSERT_TRUE(made);
  const auto& graph = made->graph;
  const auto& worker = made->workers[1];
  EXPECT_EQ(worker.task, (Task{"worker", 1}));
  EXPECT_EQ(graph.node(worker.inputs.at("ids")).name, "worker1/ids");
  EXPECT_EQ(worker.inputs.size(), 3U);
  EXPECT_EQ(graph.node(worker.loss.node).name, "worker1/Mean");
  EXPECT_EQ(graph.node(worker.metrics.at("accuracy").node).task, "/job:worker/task:1");
  EXPECT_TRUE(check_placed(graph, two_of_each().cluster));
  EXPECT_TRUE(from_text(*to_text(graph)));
}

TEST(Replicas, UpdateApartWhenTheyDoNotWait) {
  auto options = two_of_each();
  options.synchronous = false;
  options.optimizer = Optimizer::adam();
  options.feed_rate = true;
  const auto made = replicate(small_model, options);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(names_in(made->graph, made->workers[1].updates),
            (Names{"worker1/average/UpdateAverage", "worker1/table/ApplyAdam",
                   "worker1/w/ApplyAdam", "worker1/scale/ApplyAdam", "worker1/shift/ApplyAdam"}));
  EXPECT_EQ(made->graph.node(made->workers[1].inputs.at("rate")).name, "worker1/rate");
  const auto one = made->graph.node(*made->graph.find("worker0/w/ApplyAdam"));
  const auto two = made->graph.node(*made->graph.find("worker1/w/ApplyAdam"));
  EXPECT_EQ(one.inputs[1], two.inputs[1]);
  EXPECT_EQ(*one.attributes.get<double>("scale"), 1);
}

TEST(Replicas, MayBeOneAlone) {
  ReplicateOptions options;
  options.cluster = ClusterSpec::of({{"worker", 1}});
  options.feed_rate = true;
  const auto made = replicate(small_model, options);
  ASSERT_TRUE(made) << made.error().to_string();
  for (const auto& node : made->graph.nodes()) EXPECT_EQ(node.task, "/job:worker/task:0");
  EXPECT_EQ(made->workers[0].inputs.count("rate"), 1U);
}

TEST(Replicas, NameWhatIsMissing) {
  const auto why = [](const TowerFunction& tower, const ReplicateOptions& options) {
    const auto made = replicate(tower, options);
    return made ? "nothing" : made.error().to_string();
  };
  EXPECT_EQ(why(small_model, {}), "INVALID_ARGUMENT: the cluster has no task of the job 'worker'");
  EXPECT_EQ(why([](Builder&) { return Tower{}; }, two_of_each()),
            "INVALID_ARGUMENT: the tower of worker 0 has no loss");
  EXPECT_EQ(why(
                [](Builder& builder) {
                  return Tower{builder.constant(1), {}};
                },
                two_of_each()),
            "INVALID_ARGUMENT: no gradient flows from the loss to any variable");
  const auto wrong = [](Builder& builder) {
    return Tower{builder.variable("v", floats({2})) + builder.variable("w", floats({3})), {}};
  };
  EXPECT_EQ(why(wrong, two_of_each()),
            "INVALID_ARGUMENT: node 'worker0/Add' (Add): [2] and [3] cannot be broadcast to one "
            "shape");
}

}  // namespace
}  // namespace ferry::graph
