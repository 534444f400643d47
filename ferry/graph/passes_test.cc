#include "ferry/graph/passes.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"
#include "ferry/graph/optimizer.h"

namespace ferry::graph {
namespace {

tensor::Spec vector_of(std::int64_t length) {
  return {tensor::ElementType::kF32, *tensor::Shape::of({length})};
}

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node.name);
  return names;
}

using Names = std::vector<std::string>;

// x -> Relu -> Neg        y -> Exp (nobody wants it)
TEST(Pruning, KeepsWhatTargetsNeed) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x", vector_of(2));
  const auto y = builder.input("y", vector_of(2));
  const auto target = -relu(x);
  exp(y);
  const auto pruned = prune(graph, std::vector{target.output().node});
  ASSERT_TRUE(pruned);
  EXPECT_EQ(names_of(pruned->graph), (Names{"x", "Relu", "Neg"}));
  EXPECT_EQ(pruned->outputs.at(target.output()), (Output{2, 0}));
  EXPECT_EQ(pruned->outputs.count(y.output()), 0U);
}

// x -> Assign(w): there for what it does.      late ..> Relu: an edge of control.
TEST(Pruning, KeepsUpdatesAndWhatIsWaitedFor) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x", vector_of(2));
  const auto w = builder.variable("w", vector_of(2));
  assign(w, x);
  const auto target = relu(x);
  const auto late = builder.input("late", vector_of(3));
  builder.variable("unused", vector_of(2));
  graph.order(late.output().node, target.output().node);
  const auto pruned = prune(graph, std::vector{target.output().node});
  ASSERT_TRUE(pruned);
  EXPECT_EQ(names_of(pruned->graph), (Names{"x", "w", "w/Assign", "Relu", "late"}));
  EXPECT_EQ(pruned->graph.node(3).after, (std::vector<NodeId>{4}));
}

TEST(Pruning, RefusesTargetsThatThereAreNot) {
  EXPECT_EQ(prune(Graph(), std::vector<NodeId>{0}).error().code(), Code::kInvalidArgument);
}

// Adds, for Add nodes of scalars; knows nothing else.
Result<std::vector<tensor::Tensor>> add_scalars(const Node& node,
                                                std::span<const tensor::Tensor> inputs) {
  if (node.op->name != "Add") return fail(Code::kUnimplemented, "only Add");
  auto sum =
      std::make_shared<float>(inputs[0].elements<float>()[0] + inputs[1].elements<float>()[0]);
  const auto bytes = std::as_writable_bytes(std::span(sum.get(), 1));
  return std::vector<tensor::Tensor>{
      FERRY_TRY(tensor::Tensor::over({tensor::ElementType::kF32, {}}, bytes, sum))};
}

// 1 -> Add -> Add -> Mul
// 2 --/      /      /
// 3 --------/      x
TEST(Folding, MakesConstantsOfConstants) {
  Graph graph;
  Builder builder(graph);
  const auto sum = builder.constant(1) + builder.constant(2) + builder.constant(3);
  const auto target = sum * builder.input("x", vector_of(2));
  auto folded = fold(graph, add_scalars);
  ASSERT_TRUE(folded);
  const auto at = folded->outputs.at(sum.output());
  const auto& constant = folded->graph.node(at.node);
  EXPECT_EQ(constant.op->name, "Const");
  EXPECT_EQ(constant.attributes.get<tensor::Tensor>("value")->elements<float>()[0], 6);
  const auto pruned = prune(folded->graph, std::vector{folded->outputs.at(target.output()).node});
  ASSERT_TRUE(pruned);
  EXPECT_EQ(pruned->graph.size(), 3U);
}

TEST(Folding, LeavesWhatItCannotOrMustNotEvaluate) {
  Graph graph;
  Builder builder(graph);
  const auto unknown = -builder.constant(1);
  const auto random = dropout(builder.constant(1), 0.5, 1);
  const auto waits = builder.constant(1) + builder.constant(2);
  graph.order(unknown.output().node, waits.output().node);
  const auto folded = fold(graph, add_scalars);
  ASSERT_TRUE(folded);
  EXPECT_EQ(names_of(folded->graph), names_of(graph));
  for (const auto expr : {unknown, random, waits})
    EXPECT_NE(folded->graph.node(expr.output().node).op->name, "Const");
}

TEST(Folding, LeavesWhatIsTooLarge) {
  Graph graph;
  Builder builder(graph);
  builder.constant(1) + builder.constant(2);
  const auto folded = fold(graph, add_scalars, {.most_bytes = 3});
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->graph.node(2).op->name, "Add");
}

TEST(Folding, NamesAnEvaluatorThatIsWrong) {
  Graph graph;
  Builder builder(graph);
  builder.constant(1) + builder.constant(2);
  const auto folded = fold(graph, [](const Node&, std::span<const tensor::Tensor>) {
    return std::vector<tensor::Tensor>{{}, {}};
  });
  ASSERT_FALSE(folded);
  EXPECT_EQ(folded.error().code(), Code::kInternal);
}

}  // namespace
}  // namespace ferry::graph
