#include <gtest/gtest.h>

#include <limits>

#include "ferry/graph/op.h"

// Shape functions: what they make of shapes with unknown dimensions, and what they refuse.

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using List = std::vector<std::int64_t>;

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

Spec real(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kF32, *Shape::of(dims)};
}
Spec whole(std::initializer_list<std::int64_t> dims) {
  return {ElementType::kI32, *Shape::of(dims)};
}

// The outputs' specs, or why there are none.
std::string inferred(std::string_view op, std::vector<Spec> inputs, Attributes attributes = {}) {
  const auto* def = find_op(op);
  if (def == nullptr) return "no such operator";
  const auto outputs = def->infer({inputs, attributes});
  if (!outputs) {
    EXPECT_TRUE(outputs.error().code() == Code::kInvalidArgument ||
                outputs.error().code() == Code::kOutOfRange);
    return outputs.error().message();
  }
  std::string text;
  for (const auto& spec : *outputs) text += (text.empty() ? "" : " ") + spec.to_string();
  return text;
}

TEST(ShapesOfSources, AreWhatTheyDeclare) {
  const Attributes open = {{"type", ElementType::kI64}, {"shape", *Shape::of({-1, 2})}};
  EXPECT_EQ(inferred("Input", {}, open), "i64[?, 2]");
  EXPECT_EQ(inferred("Variable", {}, open), "a variable is stored, and i64[?, 2] has no size");
  EXPECT_EQ(inferred("Input", {}), "there is no attribute 'type'");
  EXPECT_EQ(inferred("Input", {}, {{"type", true}}), "attribute 'type' is of another kind");
  Attributes odd = {{"type", ElementType::kF32}, {"shape", Shape()}, {"initial", std::string("x")}};
  EXPECT_EQ(inferred("Variable", {}, odd),
            "a variable begins with zeros, constant, uniform, normal, glorot or he, not 'x'");
  EXPECT_EQ(inferred("Const", {}, {{"value", tensor::Tensor()}}), "a constant u8[] has 0 bytes");
}

TEST(ShapesOfReshape, FillInWhatIsLeftOver) {
  const auto to = [](std::initializer_list<std::int64_t> dims) {
    return Attributes{{"shape", *Shape::of(dims)}};
  };
  EXPECT_EQ(inferred("Reshape", {real({4, 6})}, to({-1, 8})), "f32[3, 8]");
  EXPECT_EQ(inferred("Reshape", {real({-1, 6})}, to({-1, 3, 2})), "f32[?, 3, 2]");
  EXPECT_EQ(inferred("Reshape", {real({0, 6})}, to({-1, 3})), "f32[0, 3]");
  EXPECT_EQ(inferred("Reshape", {real({4, 6})}, to({5, 5})), "f32[4, 6] cannot be seen as [5, 5]");
  EXPECT_EQ(inferred("Reshape", {real({4, 6})}, to({-1, 7})), "[4, 6] cannot be seen as [?, 7]");
  EXPECT_EQ(inferred("Reshape", {real({0})}, to({-1, 0})), "[0] cannot be seen as [?, 0]");
  EXPECT_EQ(inferred("Reshape", {real({4})}, to({-1, -1})),
            "one dimension may be -1, and [?, ?] has more");
  EXPECT_EQ(inferred("ReshapeLike", {real({4, 6}), whole({-1, 3})}), "f32[?, 3]");
  EXPECT_EQ(inferred("ReshapeLike", {real({4, 6}), real({5})}), "f32[4, 6] cannot be seen as [5]");
}

TEST(ShapesOfCast, AreAmongSomeTypes) {
  EXPECT_EQ(inferred("Cast", {real({-1})}, {{"type", ElementType::kBf16}}), "bf16[?]");
  EXPECT_EQ(inferred("Cast", {real({2})}, {{"type", ElementType::kBool}}),
            "f32[2] cannot be cast to bool; casts are among f16, bf16, f32, f64, i32, i64 and u8");
}

TEST(ShapesOfElements, BroadcastAsNumpyDoes) {
  EXPECT_EQ(inferred("Add", {real({-1, 3}), real({3})}), "f32[?, 3]");
  EXPECT_EQ(inferred("Mul", {real({}), real({2, -1})}), "f32[2, ?]");
  EXPECT_EQ(inferred("Sub", {real({-1, 1}), real({5})}), "f32[?, 5]");
  EXPECT_EQ(inferred("Div", {real({-1}), real({5})}), "f32[5]");
  EXPECT_EQ(inferred("Maximum", {real({-1}), real({1})}), "f32[?]");
  EXPECT_EQ(inferred("Add", {real({2, 3}), real({2})}),
            "[2, 3] and [2] cannot be broadcast to one shape");
  EXPECT_EQ(inferred("Add", {real({2}), whole({2})}), "input 1 is i32[2], and should be f32");
}

TEST(ShapesOfElements, AreOneWhereNothingBroadcasts) {
  EXPECT_EQ(inferred("AddN", {real({-1, 3}), real({2, -1}), real({2, 3})}), "f32[2, 3]");
  EXPECT_EQ(inferred("AddN", {real({2, 3}), real({3})}), "[2, 3] and [3] should be one shape");
  EXPECT_EQ(inferred("ReluGrad", {real({-1, 3}), real({2, 3})}), "f32[2, 3]");
  EXPECT_EQ(inferred("Scale", {real({-1})}, {{"factor", 2.0}}), "f32[?]");
  EXPECT_EQ(inferred("Scale", {real({-1})}), "there is no attribute 'factor'");
  EXPECT_EQ(inferred("SumTo", {real({-1, 3}), real({3})}), "f32[3]");
  EXPECT_EQ(inferred("SumTo", {real({3}), real({2, 3})}),
            "f32[2, 3] cannot be broadcast to f32[3]");
  EXPECT_EQ(inferred("BroadcastTo", {real({3}), real({-1, 3})}), "f32[?, 3]");
  EXPECT_EQ(inferred("BroadcastTo", {real({2, 3}), real({1, 3})}),
            "f32[2, 3] cannot be broadcast to f32[1, 3]");
  const Attributes half = {{"rate", 0.5}, {"seed", std::int64_t{1}}};
  EXPECT_EQ(inferred("Dropout", {real({-1})}, half), "f32[?] f32[?]");
  const Attributes all = {{"rate", 1.0}, {"seed", std::int64_t{1}}};
  EXPECT_EQ(inferred("Dropout", {real({-1})}, all), "'rate' is 1; it is from 0 to less than 1");
}

TEST(ShapesOfParts, FollowAxes) {
  EXPECT_EQ(inferred("Transpose", {whole({2, -1, 4})}, {{"order", List{2, 0, 1}}}), "i32[4, 2, ?]");
  EXPECT_EQ(inferred("Transpose", {real({2, 3})}, {{"order", List{0, 0}}}),
            "the order [0, 0] does not name each dimension of f32[2, 3] once");
  const Attributes last = {{"axis", std::int64_t{-1}}};
  EXPECT_EQ(inferred("Concat", {real({-1, 3}), real({5, 4})}, last), "f32[5, 7]");
  EXPECT_EQ(inferred("Concat", {real({2, -1}), real({2, 4})}, last), "f32[2, ?]");
  EXPECT_EQ(inferred("Concat", {real({2, 3}), real({3, 4})}, last),
            "f32[2, 3] and f32[3, 4] cannot be joined along axis 1");
  EXPECT_EQ(inferred("Concat", {real({kMost}), real({1})}, last),
            fmt::format("{} + 1 is more than a dimension can be", kMost));
  EXPECT_EQ(inferred("Concat", {real({})}, last), "there is no axis -1 in 0 dimensions");
}

TEST(ShapesOfSlices, StayInside) {
  const auto part = [](List begin, List size) {
    return Attributes{{"begin", std::move(begin)}, {"size", std::move(size)}};
  };
  EXPECT_EQ(inferred("Slice", {real({-1, 5})}, part({0, 1}, {-1, 3})), "f32[?, 3]");
  EXPECT_EQ(inferred("Slice", {real({-1, 5})}, part({2, 1}, {2, -1})), "f32[2, 4]");
  EXPECT_EQ(inferred("Slice", {real({4})}, part({2}, {3})),
            "there is no part of f32[4] that begins at [2] and is [3]");
  EXPECT_EQ(inferred("Slice", {real({4})}, part({-1}, {1})),
            "there is no part of f32[4] that begins at [-1] and is [1]");
  EXPECT_EQ(inferred("Slice", {real({4})}, part({1}, {kMost})),
            fmt::format("there is no part of f32[4] that begins at [1] and is [{}]", kMost));
  EXPECT_EQ(inferred("SliceGrad", {real({-1, 3}), real({-1, 5})}, {{"begin", List{0, 2}}}),
            "f32[?, 5]");
  EXPECT_EQ(inferred("SliceGrad", {real({2, 3}), real({2, 5})}, {{"begin", List{0, 3}}}),
            "f32[2, 3] at [0, 3] is not inside of f32[2, 5]");
}

TEST(ShapesOfReductions, KeepOrDropAxes) {
  const auto over = [](List axes, bool keep) {
    return Attributes{{"axes", std::move(axes)}, {"keep", keep}};
  };
  EXPECT_EQ(inferred("Sum", {real({-1, 3})}), "f32[]");
  EXPECT_EQ(inferred("Mean", {real({-1, 3, 4})}, over({-1, 1}, true)), "f32[?, 1, 1]");
  EXPECT_EQ(inferred("Max", {real({-1, 3, 4})}, over({1}, false)), "f32[?, 4]");
  EXPECT_EQ(inferred("Sum", {real({2, 3})}, over({1, -1}, false)), "axis -1 is named twice");
  EXPECT_EQ(inferred("Sum", {real({2, 3})}, over({2}, false)),
            "there is no axis 2 in 2 dimensions");
  EXPECT_EQ(inferred("Max", {real({0, 3})}), "there is no largest of no elements, in [0, 3]");
  EXPECT_EQ(inferred("MaxGrad", {real({2}), real({2, 3}), real({-1})}, over({1}, false)),
            "f32[2, 3]");
  EXPECT_EQ(inferred("MaxGrad", {real({3}), real({2, 3}), real({2})}, over({1}, false)),
            "[2] and [3] should be one shape");
  EXPECT_EQ(inferred("ArgMax", {real({-1, 10})}), "i32[?]");
  EXPECT_EQ(inferred("ArgMax", {real({})}),
            "input 0 is f32[], and should have 1 dimensions or more");
}

TEST(ShapesOfUpdates, AreTheVariables) {
  EXPECT_EQ(inferred("Assign", {whole({2}), whole({-1})}), "i32[2]");
  EXPECT_EQ(inferred("ApplySgd", {real({2, 3}), real({}), real({2, 3}), real({-1, 3})}),
            "f32[2, 3]");
  EXPECT_EQ(inferred("ApplySgd", {real({2, 3}), real({1}), real({2, 3})}),
            "input 1 is f32[1], and should be a scalar");
  EXPECT_EQ(inferred("ApplySgd", {real({2, 3}), real({}), real({3, 2})}),
            "[2, 3] and [3, 2] should be one shape");
  const std::vector<Spec> momentum = {real({2}), real({2}), real({}), real({2})};
  EXPECT_EQ(inferred("ApplyMomentum", momentum, {{"momentum", 0.9}}), "f32[2]");
  EXPECT_EQ(inferred("ApplyMomentum", momentum), "there is no attribute 'momentum'");
  const Attributes betas = {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};
  EXPECT_EQ(inferred("ApplyAdam", {real({2}), real({2}), real({2}), real({}), real({}), real({2})},
                     betas),
            "f32[2]");
  EXPECT_EQ(inferred("ApplySgdSparse", {real({9, 4}), real({}), real({-1, 4}), whole({-1})}),
            "f32[9, 4]");
  EXPECT_EQ(inferred("ApplySgdSparse", {real({9, 4}), real({}), real({-1, 5}), whole({-1})}),
            "D should be one number, and is 4 in f32[9, 4] (input 0) and 5 in f32[?, 5] (input 2)");
  EXPECT_EQ(inferred("ApplySgdSparse",
                     {real({9, 4}), real({}), real({-1, 4}), whole({-1}), real({-1, 4})}),
            "rows come with ids, and there are 5 inputs");
  EXPECT_EQ(inferred("UpdateAverage", {real({4}), real({4})}, {{"decay", 0.9}}), "f32[4]");
}

}  // namespace
}  // namespace ferry::graph
