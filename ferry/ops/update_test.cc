#include <gtest/gtest.h>

#include <optional>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

// An update of variables, in place or to another version, in a graph of its own.
struct Updated {
  Tensors variables;
  Status status;
  Tensor value;
  bool in_place = false;

  Updated(std::string_view op, const std::vector<Tensor>& states, const std::vector<Tensor>& others,
          const Attributes& attributes, bool reuse) {
    graph::Graph graph;
    graph::Builder builder(graph);
    std::vector<Expr> inputs;
    Tensors feeds;
    for (const auto& state : states) {
      const auto name = "v" + std::to_string(variables.size());
      variables[name] = copy_of(state);
      inputs.push_back(builder.variable(name, state.spec()));
    }
    for (const auto& other : others) {
      const auto name = "x" + std::to_string(feeds.size());
      feeds[name] = other;
      inputs.push_back(builder.input(name, other.spec()));
    }
    const auto out = builder.add(op, inputs, attributes);
    const auto* before = variables["v0"].data();
    status = builder.status();
    if (!status) return;
    auto found = evaluate(graph, variables, feeds, std::vector{out.output()}, {.reuse = reuse});
    if (!found) {
      status = tl::unexpected(found.error());
      return;
    }
    value = (*found)[0];
    in_place = variables["v0"].data() == before;
    EXPECT_EQ(variables["v0"].data(), value.data());
  }
};

// The variables after the update, the same in place and not.
std::vector<Tensor> update_of(std::string_view op, const std::vector<Tensor>& states,
                              const std::vector<Tensor>& others, const Attributes& attributes) {
  const Updated in_place(op, states, others, attributes, true);
  const Updated apart(op, states, others, attributes, false);
  EXPECT_TRUE(in_place.status && apart.status);
  EXPECT_TRUE(in_place.in_place);
  EXPECT_FALSE(apart.in_place);
  std::vector<Tensor> all;
  for (const auto& [name, value] : in_place.variables) {
    EXPECT_TRUE(same_bits(value, apart.variables.at(name))) << op << " " << name;
    all.push_back(value);
  }
  return all;
}

TEST(UpdateKernels, Assign) {
  const auto x = noise({3, 3}, 2);
  EXPECT_TRUE(same_bits(update_of("Assign", {noise({3, 3}, 1)}, {x}, {})[0], x));
}

TEST(UpdateKernels, Sgd) {
  const auto rate = floats({}, {0.1F});
  const auto all = update_of("ApplySgd", {floats({2}, {1, 2})},
                             {rate, floats({2}, {1, 2}), floats({2}, {3, 4})}, {{"scale", 0.5}});
  expect_close(all[0], {1 - 0.1 * 2, 2 - 0.1 * 3}, 1e-6);
}

TEST(UpdateKernels, Momentum) {
  const auto rate = floats({}, {0.1F});
  const auto all = update_of("ApplyMomentum", {floats({2}, {1, 2}), floats({2}, {10, 20})},
                             {rate, floats({2}, {1, 2})}, {{"momentum", 0.9}});
  expect_close(all[1], {10, 20}, 1e-6);
  expect_close(all[0], {1 - 0.1 * 10, 2 - 0.1 * 20}, 1e-6);
}

TEST(UpdateKernels, AdamCountsItsSteps) {
  const auto all = update_of(
      "ApplyAdam", {floats({1}, {1}), floats({1}, {0.5F}), floats({1}, {0.25F}), floats({}, {2})},
      {floats({}, {0.1F}), floats({1}, {2})}, {{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-8}});
  const auto m = 0.9 * 0.5 + 0.1 * 2;
  const auto v = 0.99 * 0.25 + 0.01 * 4;
  const auto step = 0.1 * (m / (1 - std::pow(0.9, 3))) / std::sqrt(v / (1 - std::pow(0.99, 3)));
  expect_close(all[0], {1 - step}, 1e-6);
  expect_close(all[1], {m}, 1e-6);
  expect_close(all[2], {v}, 1e-6);
  expect_close(all[3], {3}, 0);
}

TEST(UpdateKernels, LargeVariablesOnSeveralThreads) {
  const auto w = noise({100001}, 1);
  const auto g = noise({100001}, 2);
  const auto all = update_of("ApplySgd", {w}, {floats({}, {0.5F}), g}, {});
  for (std::size_t i = 0; i < 100001; ++i)
    ASSERT_EQ(all[0].elements<float>()[i], w.elements<float>()[i] - 0.5F * g.elements<float>()[i]);
}

TEST(UpdateKernels, SparseSgdTouchesItsRows) {
  const auto w = noise({5, 2}, 1);
  const auto all = update_of("ApplySgdSparse", {w},
                             {floats({}, {0.5F}), floats({2, 2}, {1, 2, 3, 4}), ints({2}, {1, 3}),
                              floats({1, 2}, {5, 6}), ints({1}, {3})},
                             {{"scale", 2.0}});
  std::vector<double> expected;
  for (const auto value : values(w)) expected.push_back(double{value});
  expected[2] -= 1;
  expected[3] -= 2;
  expected[6] -= 3 + 5;
  expected[7] -= 4 + 6;
  expect_close(all[0], expected, 1e-6);
}

TEST(UpdateKernels, IdsOutOfRangeChangeNothing) {
  const auto w = noise({5, 2}, 1);
  for (const std::int32_t id : {5, -1}) {
    const Updated bad("ApplySgdSparse", {w},
                      {floats({}, {1}), floats({2, 2}, {1, 2, 3, 4}), ints({2}, {1, id})}, {},
                      true);
    ASSERT_FALSE(bad.status);
    EXPECT_EQ(bad.status.error().code(), Code::kInvalidArgument);
    EXPECT_TRUE(same_bits(bad.variables.at("v0"), w));
  }
}

TEST(UpdateKernels, Average) {
  const auto all =
      update_of("UpdateAverage", {floats({2}, {1, 2})}, {floats({2}, {3, 6})}, {{"decay", 0.75}});
  expect_close(all[0], {1.5, 3}, 1e-6);
}

}  // namespace
}  // namespace ferry::ops
