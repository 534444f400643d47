#include "ferry/graph/graph.h"

#include <gtest/gtest.h>

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;

Attributes f32(std::initializer_list<std::int64_t> dims) {
  return {{"type", ElementType::kF32}, {"shape", *Shape::of(dims)}};
}

TEST(Graphs, InferSpecsAsNodesCome) {
  Graph graph;
  const auto x = graph.add({.op = "Input", .name = "x", .attributes = f32({-1, 3})});
  ASSERT_TRUE(x);
  const auto y = graph.add({.op = "OnesLike", .name = "y", .inputs = {{*x, 0}}});
  ASSERT_TRUE(y);
  EXPECT_EQ(graph.spec({*y, 0}).to_string(), "f32[?, 3]");
}

TEST(Graphs, NameWhatIsMissing) {
  Graph graph;
  const auto unknown = graph.add({.op = "Nothing", .name = "n"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), Code::kNotFound);
  EXPECT_NE(unknown.error().message().find("Nothing"), std::string::npos);
  const auto loose = graph.add({.op = "OnesLike", .name = "y", .inputs = {{7, 0}}});
  ASSERT_FALSE(loose);
  EXPECT_EQ(loose.error().code(), Code::kInvalidArgument);
  EXPECT_EQ(graph.size(), 0U);
}

TEST(Graphs, GiveEachNodeANameOfItsOwn) {
  Graph graph;
  const auto a = graph.add({.op = "Input", .name = "x", .attributes = f32({})});
  const auto b = graph.add({.op = "Input", .name = "x", .attributes = f32({})});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(graph.node(*b).name, "x_1");
  EXPECT_EQ(graph.find("x"), *a);
}

// a -> b, and c beside them.
TEST(Graphs, SortByEdgesAndControls) {
  Graph graph;
  const auto a = *graph.add({.op = "Input", .name = "a", .attributes = f32({})});
  const auto b = *graph.add({.op = "OnesLike", .name = "b", .inputs = {{a, 0}}});
  const auto c = *graph.add({.op = "Input", .name = "c", .attributes = f32({})});
  graph.order(c, b);
  EXPECT_EQ(*graph.sorted(), (std::vector<NodeId>{a, c, b}));
}

// a -> b -> c, and back by a control edge.
TEST(Graphs, NameTheNodesOfACycle) {
  Graph graph;
  const auto a = *graph.add({.op = "Input", .name = "a", .attributes = f32({})});
  const auto b = *graph.add({.op = "OnesLike", .name = "b", .inputs = {{a, 0}}});
  const auto c = *graph.add({.op = "OnesLike", .name = "c", .inputs = {{b, 0}}});
  graph.order(c, a);
  const auto sorted = graph.sorted();
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().message(), "the graph has a cycle: a -> b -> c -> a");
}

}  // namespace
}  // namespace ferry::graph
