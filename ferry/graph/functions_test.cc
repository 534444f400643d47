#include "ferry/graph/functions.h"

#include <gtest/gtest.h>

#include "ferry/graph/gradient.h"
#include "ferry/graph/optimizer.h"

namespace ferry::graph {
namespace {

using tensor::ElementType;

tensor::Spec spec_of(std::initializer_list<std::int64_t> dims,
                     ElementType type = ElementType::kF32) {
  return {type, *tensor::Shape::of(dims)};
}

// x, w -> MatMul -> (+ b) -> Relu
TEST(Functions, ReadLikeFormulas) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x", spec_of({-1, 3}));
  const auto w = builder.variable("w", spec_of({3, 4}), {Initial::Kind::kGlorot});
  const auto b = builder.variable("b", spec_of({4}));
  const auto h = relu(matmul(x, w) + b);
  ASSERT_TRUE(builder.status()) << builder.status().error().to_string();
  EXPECT_EQ(h.spec().to_string(), "f32[?, 4]");
  EXPECT_EQ(graph.size(), 6U);
}

TEST(Functions, KeepTheFirstFailureAndAddNothingAfterIt) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x", spec_of({2, 3}));
  const auto w = builder.variable("w", spec_of({4, 5}));
  const auto h = relu(matmul(x, w));
  EXPECT_FALSE(h);
  ASSERT_FALSE(builder.status());
  EXPECT_EQ(builder.status().error().message(),
            "node 'MatMul' (MatMul): K should be one number, and is 3 in f32[2, 3] (input 0) and 4 "
            "in f32[4, 5] (input 1)");
  EXPECT_EQ(graph.size(), 2U);
}

TEST(Functions, DoNotMixBuilders) {
  Graph one;
  Graph two;
  Builder first(one);
  Builder second(two);
  EXPECT_FALSE(first.constant(1) + second.constant(2));
  EXPECT_FALSE(first.status());
}

TEST(Functions, SamePadsKeepTheSize) {
  Graph graph;
  Builder builder(graph);
  const auto x = builder.input("x", spec_of({-1, 7, 8, 3}));
  EXPECT_EQ(same_pads(x, {3, 3}), (Pads{1, 1, 1, 1}));
  EXPECT_EQ(same_pads(x, {3, 3}, {2, 2}), (Pads{1, 0, 1, 1}));
  EXPECT_EQ(same_pads(x, {1, 1}, {2, 2}), (Pads{0, 0, 0, 0}));
  const auto w = builder.variable("w", spec_of({3, 3, 3, 16}));
  const auto y = conv2d(x, w, {.strides = {2, 2}, .pads = same_pads(x, {3, 3}, {2, 2})});
  EXPECT_EQ(y.spec().to_string(), "f32[?, 4, 4, 16]");
  same_pads(builder.input("free", spec_of({-1, -1, 8, 3})), {3, 3});
  EXPECT_FALSE(builder.status());
}

}  // namespace
}  // namespace ferry::graph
