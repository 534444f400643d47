#include <gtest/gtest.h>

#include <limits>

#include "ferry/graph/op.h"

// Shape functions of matrices, images, classes and recurrences.

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using Longs = std::vector<std::int64_t>;

Spec f(std::initializer_list<std::int64_t> dims) { return {ElementType::kF32, *Shape::of(dims)}; }
Spec i(std::initializer_list<std::int64_t> dims) { return {ElementType::kI32, *Shape::of(dims)}; }

// The outputs' specs, or why there are none.
std::string made(std::string_view op, std::vector<Spec> inputs, Attributes attributes = {}) {
  const auto* def = find_op(op);
  if (def == nullptr) return "no such operator";
  const auto outputs = def->infer({inputs, attributes});
  if (!outputs) return outputs.error().message();
  std::string text;
  for (const auto& spec : *outputs) text += (text.empty() ? "" : " ") + spec.to_string();
  return text;
}

TEST(ShapesOfMatMul, ShareK) {
  EXPECT_EQ(made("MatMul", {f({-1, 3}), f({3, 4})}), "f32[?, 4]");
  EXPECT_EQ(made("MatMul", {f({3, 2}), f({4, 3})}, {{"transpose_a", true}, {"transpose_b", true}}),
            "f32[2, 4]");
  EXPECT_EQ(made("MatMul", {f({2, 3}), f({2, 3, 4})}),
            "input 1 is f32[2, 3, 4], and should be [K, N]");
  EXPECT_EQ(made("MatMul", {f({2, 3}), i({3, 4})}), "input 1 is i32[3, 4], and should be f32");
}

TEST(ShapesOfConvolutions, CountPlaces) {
  const Attributes two = {{"strides", Longs{2, 2}}, {"pads", Longs{3, 3, 3, 3}}};
  EXPECT_EQ(made("Conv2D", {f({-1, 224, 224, 3}), f({7, 7, 3, 64})}, two), "f32[?, 112, 112, 64]");
  EXPECT_EQ(made("Conv2D", {f({8, -1, 5, 3}), f({3, 3, 3, 4})}), "f32[8, ?, 3, 4]");
  EXPECT_EQ(made("Conv2D", {f({8, 5, 5, 3}), f({3, 3, 4, 4})}),
            "C should be one number, and is 3 in f32[8, 5, 5, 3] (input 0) and 4 in f32[3, 3, 4, "
            "4] (input 1)");
  EXPECT_EQ(made("Conv2D", {f({8, 2, 5, 3}), f({3, 3, 3, 4})}),
            "a window of 3 does not fit into 2 rows and 0 of padding");
  EXPECT_EQ(made("Conv2D", {f({8, 5, 0, 3}), f({3, 3, 3, 4})}),
            "a window of 3 does not fit into 0 columns and 0 of padding");
}

TEST(ShapesOfConvolutions, RefuseOddAttributes) {
  const std::vector<Spec> inputs = {f({8, 5, 5, 3}), f({3, 3, 3, 4})};
  EXPECT_EQ(made("Conv2D", inputs, {{"strides", Longs{0, 1}}}),
            "'strides' is 2 numbers of at least 1, not [0, 1]");
  EXPECT_EQ(made("Conv2D", inputs, {{"strides", Longs{}}}),
            "'strides' is 2 numbers of at least 1, not []");
  EXPECT_EQ(made("Conv2D", inputs, {{"pads", Longs{0, -1, 0, 0}}}),
            "'pads' is 4 numbers of at least 0, not [0, -1, 0, 0]");
  EXPECT_EQ(made("Conv2D", inputs, {{"pads", true}}), "attribute 'pads' is of another kind");
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(made("Conv2D", inputs, {{"pads", Longs{kMost, 0, kMost, 0}}}),
            fmt::format("{} + {} is more than a dimension can be", kMost, kMost));
  EXPECT_EQ(made("Conv2D", inputs, {{"pads", Longs{kMost, 0, 0, 0}}}),
            fmt::format("5 + {} is more than a dimension can be", kMost));
}

TEST(ShapesOfConvolutions, GoBack) {
  const Attributes same = {{"strides", Longs{1, 1}}, {"pads", Longs{1, 1, 1, 1}}};
  const auto x = f({-1, 5, 5, 3});
  const auto w = f({3, 3, 3, 4});
  EXPECT_EQ(made("Conv2DGradInput", {f({8, 5, 5, 4}), w, x}, same), "f32[8, 5, 5, 3]");
  EXPECT_EQ(made("Conv2DGradFilter", {f({8, 5, 5, 4}), x, w}, same), "f32[3, 3, 3, 4]");
  EXPECT_EQ(made("Conv2DGradInput", {f({8, 4, 5, 4}), w, x}, same),
            "Y should be one number, and is 4 in f32[8, 4, 5, 4] (input 0) and 5 in what the rows "
            "allow");
}

TEST(ShapesOfPools, SeeSomethingAtEachPlace) {
  const Attributes pool = {
      {"window", Longs{3, 3}}, {"strides", Longs{2, 2}}, {"pads", Longs{1, 1, 1, 1}}};
  EXPECT_EQ(made("MaxPool", {f({-1, 112, 112, 64})}, pool), "f32[?, 56, 56, 64]");
  EXPECT_EQ(made("AvgPoolGrad", {f({-1, 56, 56, 64}), f({2, 112, 112, 64})}, pool),
            "f32[2, 112, 112, 64]");
  EXPECT_EQ(made("MaxPoolGrad", {f({-1, 2, 2, 1}), f({2, 4, 4, 1}), f({-1, 2, 2, 1})}, pool),
            "f32[2, 4, 4, 1]");
  const Attributes padded = {{"window", Longs{2, 2}}, {"pads", Longs{0, 0, 2, 0}}};
  EXPECT_EQ(made("AvgPool", {f({1, 4, 4, 1})}, padded),
            "a window of 2 x 2 would see nothing but padding of 2");
  EXPECT_EQ(made("AvgPool", {f({1, 4, 4, 1})}), "'window' is 2 numbers of at least 1, not [0, 0]");
}

TEST(ShapesOfNormalisation, KnowTheirChannels) {
  const Attributes epsilon = {{"epsilon", 1e-5}};
  const auto x = f({-1, 4, 4, 8});
  EXPECT_EQ(made("BatchNorm", {x, f({8}), f({8})}, epsilon), "f32[?, 4, 4, 8] f32[8] f32[8]");
  EXPECT_EQ(made("BatchNorm", {x, f({8}), f({9})}, epsilon),
            "C should be one number, and is 8 in [?, 4, 4, 8] and 9 in f32[9] (input 2)");
  EXPECT_EQ(made("BatchNorm", {x, f({8}), f({8})}, {{"epsilon", -1.0}}),
            "'epsilon' is -1; it is 0 or more");
  EXPECT_EQ(made("BatchNormGrad", {f({2, 4, 4, 8}), x, f({8}), f({8}), f({8})}, epsilon),
            "f32[2, 4, 4, 8] f32[8] f32[8]");
  EXPECT_EQ(made("BatchNormApply", {x, f({8}), f({8}), f({8}), f({8})}, epsilon),
            "f32[?, 4, 4, 8]");
  Attributes lrn = {{"size", std::int64_t{5}}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}};
  EXPECT_EQ(made("Lrn", {x}, lrn), "f32[?, 4, 4, 8]");
  EXPECT_EQ(made("LrnGrad", {x, x}, lrn), "f32[?, 4, 4, 8]");
  lrn.set("size", std::int64_t{0});
  EXPECT_EQ(made("Lrn", {x}, lrn), "'size' is 0; it is 1 or more");
}

TEST(ShapesOfClasses, HaveALabelARow) {
  EXPECT_EQ(made("Softmax", {f({-1, 10})}), "f32[?, 10]");
  EXPECT_EQ(made("SoftmaxGrad", {f({-1, 10}), f({4, 10})}), "f32[4, 10]");
  EXPECT_EQ(made("SoftmaxCrossEntropy", {f({-1, 10}), i({32})}), "f32[32] f32[32, 10]");
  EXPECT_EQ(made("SoftmaxCrossEntropy", {f({16, 10}), i({32})}),
            "N should be one number, and is 16 in f32[16, 10] (input 0) and 32 in i32[32] (input "
            "1)");
  EXPECT_EQ(made("SoftmaxCrossEntropy", {f({16, 10}), f({16})}),
            "input 1 is f32[16], and should be i32");
  EXPECT_EQ(made("SoftmaxCrossEntropyGrad", {f({-1}), f({8, 10})}), "f32[8, 10]");
  EXPECT_EQ(made("Accuracy", {f({-1, 10}), i({-1})}), "f32[]");
}

TEST(ShapesOfTables, AddADimension) {
  EXPECT_EQ(made("Embedding", {f({1000, 64}), i({-1, 20})}), "f32[?, 20, 64]");
  EXPECT_EQ(made("Embedding", {f({9, 4}), i({1, 1, 1, 1, 1, 1, 1, 1})}),
            "a tensor has 8 dimensions at most, not 9");
  EXPECT_EQ(made("EmbeddingGrad", {f({-1, 20, 64}), i({-1, 20}), f({1000, 64})}),
            "f32[?, 64] i32[?]");
  EXPECT_EQ(made("EmbeddingGrad", {f({-1, 20, 32}), i({-1, 20}), f({1000, 64})}),
            "[?, 20, 32] and [?, 20, 64] should be one shape");
  EXPECT_EQ(made("Densify", {f({-1, 64}), i({-1}), f({1000, 64})}), "f32[1000, 64]");
}

TEST(ShapesOfCells, TieWeightsToStates) {
  const auto x = f({-1, 10});
  const auto h = f({-1, 16});
  EXPECT_EQ(made("LstmCell", {x, h, h, f({26, 64}), f({64})}), "f32[?, 16] f32[?, 16] f32[?, 64]");
  EXPECT_EQ(made("LstmCell", {x, h, h, f({26, 48}), f({48})}),
            "G should be one number, and is 48 in f32[26, 48] (input 3) and 64 in 4 H");
  EXPECT_EQ(made("LstmCell", {x, h, h, f({25, 64}), f({64})}),
            "J should be one number, and is 25 in f32[25, 64] (input 3) and 26 in I + H");
  EXPECT_EQ(made("LstmCellGrad", {h, h, x, h, h, f({26, 64}), h, f({-1, 64})}),
            "f32[?, 10] f32[?, 16] f32[?, 16] f32[26, 64] f32[64]");
  EXPECT_EQ(made("GruCell", {x, h, f({26, 48}), f({48})}), "f32[?, 16] f32[?, 48]");
  EXPECT_EQ(made("GruCellGrad", {h, x, h, f({26, 48}), f({-1, 48})}),
            "f32[?, 10] f32[?, 16] f32[26, 48] f32[48]");
}

TEST(ShapesOfSequences, MayHaveAnyLength) {
  const auto x = f({-1, 10});
  const auto h = f({-1, 16});
  const auto xs = f({-1, -1, 10});
  const auto hs = f({-1, 8, 16});
  EXPECT_EQ(made("Lstm", {xs, h, h, f({26, 64}), f({64})}),
            "f32[?, ?, 16] f32[?, ?, 16] f32[?, ?, 64]");
  EXPECT_EQ(made("Lstm", {f({7, 8, 10}), h, h, f({26, 64}), f({64})}),
            "f32[7, 8, 16] f32[7, 8, 16] f32[7, 8, 64]");
  EXPECT_EQ(made("Lstm", {x, h, h, f({26, 64}), f({64})}),
            "input 0 is f32[?, 10], and should be [T, N, I]");
  EXPECT_EQ(made("LstmGrad", {hs, xs, h, h, f({26, 64}), hs, hs, f({-1, -1, 64})}),
            "f32[?, 8, 10] f32[8, 16] f32[8, 16] f32[26, 64] f32[64]");
  EXPECT_EQ(made("Gru", {xs, h, f({26, 48}), f({48})}), "f32[?, ?, 16] f32[?, ?, 48]");
  EXPECT_EQ(made("GruGrad", {hs, xs, h, f({26, 48}), hs, f({-1, -1, 48})}),
            "f32[?, 8, 10] f32[8, 16] f32[26, 48] f32[48]");
}

}  // namespace
}  // namespace ferry::graph
