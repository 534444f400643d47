#include "ferry/graph/partition.h"

#include <gtest/gtest.h>

namespace ferry::graph {
namespace {

constexpr auto kPs = "/job:ps/task:0";
constexpr auto kWorker0 = "/job:worker/task:0";
constexpr auto kWorker1 = "/job:worker/task:1";

// Operators for drawings: what they compute does not matter here.
void register_drawn_ops() {
  static const bool once = [] {
    const auto same = [](const Inference& node) -> Result<std::vector<tensor::Spec>> {
      return std::vector{node.inputs[0]};
    };
    FERRY_ASSERT(register_op({.name = "Drawn", .least_inputs = 1, .most_inputs = 4, .infer = same}),
                 "is new");
    FERRY_ASSERT(register_op({.name = "DrawnView",
                              .least_inputs = 1,
                              .most_inputs = 1,
                              .infer = same,
                              .forwards = true}),
                 "is new");
    FERRY_ASSERT(register_op({.name = "DrawnUpdate",
                              .least_inputs = 2,
                              .most_inputs = 4,
                              .infer = same,
                              .forwards = true,
                              .updates = 1,
                              .stateful = true}),
                 "is new");
    return true;
  }();
  ASSERT_TRUE(once);
}

class Partitions : public ::testing::Test {
 protected:
  void SetUp() override { register_drawn_ops(); }

  Output source(const std::string& op, const std::string& name, const std::string& task,
                std::initializer_list<std::int64_t> dims = {4}) {
    const Attributes attributes{{"type", tensor::ElementType::kF32},
                                {"shape", *tensor::Shape::of(dims)}};
    return {*graph.add({.op = op, .name = name, .attributes = attributes, .task = task}), 0};
  }
  Output node(const std::string& op, const std::string& name, const std::string& task,
              std::vector<Output> inputs) {
    return {*graph.add({.op = op, .name = name, .inputs = std::move(inputs), .task = task}), 0};
  }
  Partition cut(bool maps = false) {
    auto made =
        partition(graph, {.maps = [maps](const std::string&, const std::string&) { return maps; }});
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? *std::move(made) : Partition();
  }
  static const Graph& part(const Partition& made, const std::string& task) {
    for (const auto& part : made.parts)
      if (part.task == task) return part.graph;
    static const Graph kNone;
    return kNone;
  }
  static bool waits(const Graph& graph, const std::string& node, const std::string& before) {
    const auto& after = graph.node(*graph.find(node)).after;
    return std::find(after.begin(), after.end(), *graph.find(before)) != after.end();
  }

  Graph graph;
};

//  ps: w ---+--------> worker 0: a(x, w), b(w)
//           +--------> worker 1: c(w)
TEST_F(Partitions, CrossOncePerTensorAndTask) {
  const auto w = source("Variable", "w", kPs);
  const auto x = source("Input", "x", kWorker0);
  node("Drawn", "a", kWorker0, {x, w});
  node("Drawn", "b", kWorker0, {w});
  node("Drawn", "c", kWorker1, {w});
  const auto made = cut();
  ASSERT_EQ(made.crossings.size(), 2U);
  EXPECT_EQ(made.crossings[0].to, kWorker0);
  EXPECT_EQ(made.crossings[1].to, kWorker1);
  EXPECT_EQ(part(made, kWorker0).size(), 4U);  // x, the receive, a, b
  EXPECT_EQ(part(made, kPs).size(), 3U);       // w, two sends
}

TEST_F(Partitions, TakeTheWayThatShapesAndPathsAllow) {
  const auto w = source("Variable", "w", kPs);
  const auto fixed = source("Input", "fixed", kPs);
  const auto varies = source("Input", "varies", kPs, {-1, 4});
  node("Drawn", "a", kWorker0, {w, fixed, varies});
  const auto mapped = cut(true);
  EXPECT_EQ(mapped.crossings[0].protocol, TransferProtocol::kShared);
  EXPECT_EQ(mapped.crossings[0].variable, "w");
  EXPECT_EQ(mapped.crossings[1].protocol, TransferProtocol::kStatic);
  EXPECT_EQ(mapped.crossings[2].protocol, TransferProtocol::kDynamic);
  EXPECT_FALSE(part(mapped, kPs).find("send/0/w"));  // its versions are there to be read
  EXPECT_TRUE(part(mapped, kPs).find("send/2/varies"));
  EXPECT_EQ(cut(false).crossings[0].protocol, TransferProtocol::kStatic);
}

TEST_F(Partitions, SeeAVariableBehindAView) {
  const auto w = source("Variable", "w", kPs);
  const auto view = node("DrawnView", "view", kPs, {w});
  node("Drawn", "a", kWorker0, {view});
  EXPECT_EQ(cut(true).crossings[0].variable, "w");
}

TEST_F(Partitions, CloneConstants) {
  const auto k = source("Input", "k", kPs);
  std::vector<float> one = {1};
  const auto value = *tensor::Tensor::over({}, std::as_writable_bytes(std::span(one)));
  const Output c{*graph.add({.op = "Const", .name = "c", .attributes = {{"value", value}}}), 0};
  node("Drawn", "a", kPs, {k, c});
  node("Drawn", "b", kWorker0, {c});
  const auto made = cut();
  EXPECT_TRUE(made.crossings.empty());
  EXPECT_TRUE(part(made, kPs).find("c"));
  EXPECT_TRUE(part(made, kWorker0).find("c"));
}

//  ps: a ..(control)..> worker 0: b
TEST_F(Partitions, CarryControlEdges) {
  const auto x = source("Input", "x", kPs);
  const auto y = source("Input", "y", kWorker0);
  const auto a = node("Drawn", "a", kPs, {x});
  const auto b = node("Drawn", "b", kWorker0, {y});
  graph.order(a.node, b.node);
  const auto made = cut();
  ASSERT_EQ(made.crossings.size(), 1U);
  EXPECT_TRUE(waits(part(made, kPs), "signal/a", "a"));
  EXPECT_TRUE(waits(part(made, kWorker0), "b", "recv/0/a (control)"));
}

//  ps: w --> update <-- worker 0: g(x), which does not depend on w
//      w --> send --> worker 0: y(w)
TEST_F(Partitions, OrderReadersBeforeUpdates) {
  const auto w = source("Variable", "w", kPs);
  const auto x = source("Input", "x", kWorker0);
  node("Drawn", "y", kWorker0, {w});
  const auto g = node("Drawn", "g", kWorker0, {x});
  const auto view = node("DrawnView", "view", kPs, {w});
  node("Drawn", "reader", kPs, {view});
  node("DrawnUpdate", "update", kPs, {w, g});
  const auto made = cut();
  const auto& ps = part(made, kPs);
  EXPECT_TRUE(waits(ps, "update", "send/0/w"));
  EXPECT_TRUE(waits(ps, "update", "reader"));
  // The gradient leaves after the variable that it is for has come.
  EXPECT_TRUE(waits(part(made, kWorker0), "send/1/g", "recv/0/w"));
}

TEST_F(Partitions, RefuseAReadAfterTheUpdate) {
  const auto w = source("Variable", "w", kPs);
  const auto g = source("Input", "g", kPs);
  const auto update = node("DrawnUpdate", "update", kPs, {w, g});
  node("Drawn", "late", kPs, {w, update});
  const auto made = partition(graph);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("update -> late -> update"), std::string::npos)
      << made.error().message();
}

TEST_F(Partitions, NameANodeThatIsNotPlaced) {
  source("Input", "x", "");
  const auto made = partition(graph);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("'x'"), std::string::npos);
}

//  ps, loop 0: update0(w, g0)    ps, loop 1: update1(w, g1)
TEST_F(Partitions, KeepVariablesInEveryLoopOfTheirTask) {
  const auto w = source("Variable", "w", kPs);
  for (const std::string loop : {"0", "1"}) {
    const auto g = source("Input", "g" + loop, "/job:worker/task:" + loop);
    const auto read = node("DrawnView", "read" + loop, fmt::format("{}/loop:{}", kPs, loop), {w});
    node("Drawn", "y" + loop, "/job:worker/task:" + loop, {read});
    node("DrawnUpdate", "update" + loop, fmt::format("{}/loop:{}", kPs, loop), {w, g});
  }
  const auto made = cut();
  EXPECT_EQ(made.parts.size(), 4U);
  EXPECT_EQ(made.crossings.size(), 4U);
  for (const std::string loop : {"0", "1"})
    EXPECT_TRUE(part(made, fmt::format("{}/loop:{}", kPs, loop)).find("w"));
}

}  // namespace
}  // namespace ferry::graph
