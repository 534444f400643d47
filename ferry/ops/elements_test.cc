#include <gtest/gtest.h>

#include <functional>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

// The element of a tensor that is broadcast, where the result's index is `at`.
double broadcast_at(const Tensor& x, const Dims& dims, std::size_t at) {
  const auto& shape = x.shape();
  std::size_t offset = 0;
  std::size_t step = 1;
  for (auto axis = dims.size(); axis-- > 0;) {
    const auto index = at % static_cast<std::size_t>(dims[axis]);
    at /= static_cast<std::size_t>(dims[axis]);
    const auto missing = dims.size() - shape.rank();
    if (axis < missing) continue;
    const auto own = static_cast<std::size_t>(shape.dim(axis - missing));
    if (own > 1) offset += index * step;
    step *= own;
  }
  return static_cast<double>(x.elements<float>()[offset]);
}

void expect_binary(const Dims& a_dims, const Dims& b_dims, const Dims& dims) {
  const std::vector<std::pair<std::string, std::function<double(double, double)>>> ops = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"Maximum", [](double a, double b) { return std::max(a, b); }}};
  const auto a = noise(a_dims, 1, 0.5, 2);
  const auto b = noise(b_dims, 2, 0.5, 2);
  for (const auto& [op, reference] : ops) {
    const auto y = result_of(op, {a, b});
    ASSERT_EQ(y.shape(), *Shape::of(dims)) << op;
    std::vector<double> expected(static_cast<std::size_t>(y.shape().elements()));
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = reference(broadcast_at(a, dims, i), broadcast_at(b, dims, i));
    expect_close(y, expected, 1e-6);
  }
}

TEST(ElementKernels, BroadcastAsInNumpy) {
  expect_binary({5}, {5}, {5});
  expect_binary({}, {}, {});
  expect_binary({2, 3}, {}, {2, 3});
  expect_binary({}, {2, 3}, {2, 3});
  expect_binary({2, 3, 4, 7}, {7}, {2, 3, 4, 7});
  expect_binary({2, 1, 5}, {3, 1}, {2, 3, 5});
  expect_binary({4, 1}, {1, 6}, {4, 6});
  expect_binary({1, 3}, {3}, {1, 3});
  expect_binary({3, 1, 2, 1}, {1, 4, 1, 5}, {3, 4, 2, 5});
  expect_binary({0, 3}, {3}, {0, 3});
  expect_binary({70000}, {1}, {70000});
  expect_binary({300, 301}, {301}, {300, 301});
  expect_binary({300, 301}, {300, 1}, {300, 301});
}

TEST(ElementKernels, RefuseShapesThatDoNotFit) {
  EXPECT_EQ(code_of(run_op("Add", {noise({3}, 1), noise({4}, 2)})), Code::kInvalidArgument);
}

// What the graph does not know is checked when the step runs.
TEST(ElementKernels, RefuseWhatTurnsOutNotToFit) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto x = builder.input("x", spec({-1}));
  const auto y = builder.input("y", spec({-1}));
  const auto z = builder.add("AddN", {x, y}, {}, "sum");
  ASSERT_TRUE(builder.status());
  Tensors variables;
  const auto run = [&](const Tensors& feeds) {
    return evaluate(graph, variables, feeds, std::vector{z.output()});
  };
  EXPECT_TRUE(run({{"x", noise({3}, 1)}, {"y", noise({3}, 2)}}));
  const auto refused = run({{"x", noise({3}, 1)}, {"y", noise({4}, 2)}});
  ASSERT_EQ(code_of(refused), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("node 'sum' (AddN)"), std::string::npos);
}

TEST(ElementKernels, Unaries) {
  const std::vector<std::pair<std::string, double (*)(double)>> ops = {
      {"Neg", [](double x) { return -x; }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Square", [](double x) { return x * x; }},
      {"Relu", [](double x) { return std::max(0.0, x); }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Tanh", [](double x) { return std::tanh(x); }}};
  for (const auto& [op, reference] : ops) {
    const auto x = noise({7, 11}, 3, op == "Log" || op == "Sqrt" ? 0.1 : -3, 3);
    std::vector<double> expected;
    for (const auto value : values(x)) expected.push_back(reference(static_cast<double>(value)));
    expect_close(result_of(op, {x}), expected, 1e-6);
  }
}

TEST(ElementKernels, GradientsOfCurves) {
  const auto dy = noise({9}, 1);
  const auto y = noise({9}, 2);
  std::vector<double> relu;
  std::vector<double> sigmoid;
  std::vector<double> tanh;
  for (std::size_t i = 0; i < 9; ++i) {
    const double d = values(dy)[i];
    const double v = values(y)[i];
    relu.push_back(v > 0 ? d : 0);
    sigmoid.push_back(d * v * (1 - v));
    tanh.push_back(d * (1 - v * v));
  }
  expect_close(result_of("ReluGrad", {dy, y}), relu, 1e-6);
  expect_close(result_of("SigmoidGrad", {dy, y}), sigmoid, 1e-6);
  expect_close(result_of("TanhGrad", {dy, y}), tanh, 1e-6);
}

TEST(ElementKernels, AddNAddsFromTheFirstToTheLast) {
  const auto a = floats({1}, {1e8F});
  const auto b = floats({1}, {1});
  const auto c = floats({1}, {-1e8F});
  EXPECT_EQ(values(result_of("AddN", {a, b, c})), std::vector<float>{0});
  EXPECT_EQ(values(result_of("AddN", {a, c, b})), std::vector<float>{1});
  EXPECT_EQ(values(result_of("AddN", {b})), std::vector<float>{1});
}

TEST(ElementKernels, ScaleAndBroadcastTo) {
  const auto x = floats({2, 1}, {1, 2});
  EXPECT_EQ(values(result_of("Scale", {x}, {{"factor", 0.5}})), (std::vector<float>{0.5F, 1}));
  const auto wide = result_of("BroadcastTo", {x, noise({3, 2, 2}, 1)});
  EXPECT_EQ(values(wide), (std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2}));
}

TEST(ElementKernels, DropoutDependsOnSeedAndStep) {
  const auto x = floats({1000}, std::vector<float>(1000, 2));
  const auto run = [&](std::int64_t seed, std::uint64_t step) {
    return results_of("Dropout", {x}, {{"rate", 0.25}, {"seed", seed}}, step);
  };
  const auto once = run(1, 1);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto mask = values(once[1])[i];
    EXPECT_TRUE(mask == 0 || mask == static_cast<float>(1 / 0.75));
    EXPECT_EQ(values(once[0])[i], 2 * mask);
    dropped += mask == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 250, 50);
  EXPECT_TRUE(same_bits(run(1, 1)[1], once[1]));
  EXPECT_FALSE(same_bits(run(1, 2)[1], once[1]));
  EXPECT_FALSE(same_bits(run(2, 1)[1], once[1]));
}

}  // namespace
}  // namespace ferry::ops
