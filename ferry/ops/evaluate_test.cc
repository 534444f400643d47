#include "ferry/ops/evaluate.h"

#include <gtest/gtest.h>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/optimizer.h"
#include "ferry/ops/initial.h"
#include "ferry/ops/kit_internal.h"
#include "ferry/ops/threads.h"

namespace ferry::ops {
namespace {

using namespace kit;

// x -> relu -> exp, and relu is fetched too: exp must not write over it.
TEST(Evaluate, WhatIsFetchedIsNotWrittenOver) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto x = builder.input("x", spec({3}));
  const auto y = graph::relu(x);
  const auto z = graph::exp(graph::reshape(y, {3}));
  Tensors none;
  const auto found = evaluate(graph, none, {{"x", floats({3}, {-1, 0, 1})}},
                              std::vector{y.output(), z.output(), y.output()});
  ASSERT_TRUE(found);
  EXPECT_EQ(values((*found)[0]), (std::vector<float>{0, 0, 1}));
  EXPECT_EQ((*found)[2].data(), (*found)[0].data());
  expect_close((*found)[1], {1, 1, std::exp(1)}, 1e-6);
}

// w is read after its update has run: it is the value from the beginning of the step.
TEST(Evaluate, VariablesKeepTheirValueDuringTheStep) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto w = builder.variable("w", spec({2}));
  const auto updated = graph::assign(w, builder.constant(floats({2}, {5, 6})));
  const auto late = builder.add("Scale", {w}, {{"factor", 2.0}});
  graph.order(updated.output().node, late.output().node);
  Tensors variables = {{"w", floats({2}, {1, 2})}};
  const auto found =
      evaluate(graph, variables, {}, std::vector{late.output(), updated.output(), w.output()});
  ASSERT_TRUE(found);
  EXPECT_EQ(values((*found)[0]), (std::vector<float>{2, 4}));
  EXPECT_EQ(values((*found)[1]), (std::vector<float>{5, 6}));
  EXPECT_EQ(values((*found)[2]), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(variables["w"]), (std::vector<float>{5, 6}));
}

TEST(Evaluate, RefusesWhatIsNotThere) {
  graph::Graph graph;
  Tensors none;
  EXPECT_EQ(code_of(evaluate(graph, none, {}, std::vector{graph::Output{0, 0}})),
            Code::kInvalidArgument);
}

TEST(InitialValues, DependOnSeedAndNameAlone) {
  graph::Graph graph;
  graph::Builder builder(graph);
  using Kind = graph::Initial::Kind;
  builder.variable("a", spec({50, 100}), {Kind::kGlorot});
  builder.variable("b", spec({50, 100}), {Kind::kGlorot});
  builder.variable("he", spec({3, 3, 20, 50}), {Kind::kHe});
  builder.variable("five", spec({2}), {Kind::kConstant, 5});
  builder.variable("flat", spec({1000}), {Kind::kUniform, 0.5});
  builder.variable("bell", spec({10000}), {Kind::kNormal, 2});
  builder.variable("count", spec({}, ElementType::kI64));
  const auto once = *initial_values(graph, 1);
  const auto again = *initial_values(graph, 1);
  const auto other = *initial_values(graph, 2);
  for (const auto& [name, value] : once) EXPECT_TRUE(same_bits(value, again.at(name))) << name;
  EXPECT_FALSE(same_bits(once.at("a"), other.at("a")));
  EXPECT_FALSE(same_bits(once.at("a"), once.at("b")));
  EXPECT_EQ(values(once.at("five")), (std::vector<float>{5, 5}));
  EXPECT_EQ(once.at("count").elements<std::int64_t>()[0], 0);
  const auto deviation = [&](const std::string& name) {
    double sum = 0;
    for (const auto value : values(once.at(name))) sum += double{value} * double{value};
    return std::sqrt(sum / static_cast<double>(once.at(name).shape().elements()));
  };
  EXPECT_NEAR(deviation("a"), std::sqrt(2.0 / 150), 0.01);
  EXPECT_NEAR(deviation("he"), std::sqrt(2.0 / 180), 0.01);
  EXPECT_NEAR(deviation("flat"), 0.5 / std::sqrt(3), 0.02);
  EXPECT_NEAR(deviation("bell"), 2, 0.05);
  EXPECT_FLOAT_EQ(values(once.at("flat"))[0], values(*initial_value(graph.node(4), 1))[0]);
}

// Convolutions, pools and full layers, as LeNet has them, on images of stripes.
class SmallNet {
 public:
  explicit SmallNet(const graph::Optimizer& optimizer) : builder_(graph_) {
    using namespace graph;
    const Initial he{Initial::Kind::kHe};
    const auto x = builder_.input("x", spec({-1, 12, 12, 1}));
    const auto labels = builder_.input("labels", spec({-1}, ElementType::kI32));
    auto y = conv2d(x, weights("conv1", {5, 5, 1, 6}, he), {.pads = {2, 2, 2, 2}});
    y = max_pool(relu(y + weights("bias1", {6})), {2, 2}, {.strides = {2, 2}});
    y = conv2d(y, weights("conv2", {3, 3, 6, 8}, he));
    y = avg_pool(relu(y), {2, 2}, {.strides = {2, 2}});
    y = relu(matmul(reshape(y, {-1, 32}), weights("full1", {32, 16}, he)) + weights("bias2", {16}));
    y = matmul(y, weights("full2", {16, 4}, {Initial::Kind::kGlorot})) + weights("bias3", {4});
    loss_ = mean(softmax_cross_entropy(y, labels));
    const auto rate = builder_.constant(optimizer.kind == Optimizer::Kind::kAdam ? 0.01F : 0.05F);
    const auto slopes = gradients(loss_, variables_);
    for (std::size_t i = 0; i < slopes.size(); ++i)
      fetches_.push_back(
          apply_gradients(optimizer, variables_[i], rate, std::span(slopes).subspan(i, 1))
              .output());
    fetches_.insert(fetches_.begin(), loss_.output());
  }

  const Status& status() const { return builder_.status(); }
  // The losses of so many steps.
  std::vector<float> train(std::size_t steps, bool reuse) {
    std::vector<float> losses;
    auto variables = *initial_values(graph_, 1);
    for (std::size_t step = 1; step <= steps; ++step) {
      const auto found =
          evaluate(graph_, variables, batch(step), fetches_, {.step = step, .reuse = reuse});
      EXPECT_TRUE(found) << found.error().to_string();
      if (!found) break;
      losses.push_back((*found)[0].elements<float>()[0]);
    }
    return losses;
  }

 private:
  Expr weights(const std::string& name, const Dims& dims, graph::Initial initial = {}) {
    variables_.push_back(builder_.variable(name, spec(dims), initial));
    return variables_.back();
  }
  // Stripes of four directions in noise.
  static Tensors batch(std::uint64_t key) {
    auto x = noise({16, 12, 12, 1}, key, -0.5, 0.5);
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < 16; ++i) {
      const auto label = math::random_bits(key + 1000, i) % 4;
      labels.push_back(static_cast<std::int32_t>(label));
      for (std::size_t r = 0; r < 12; ++r)
        for (std::size_t c = 0; c < 12; ++c) {
          const std::array<std::size_t, 4> phase = {r, c, r + c, r + 12 - c};
          if (phase.at(label) % 4 < 2) x.elements<float>()[(i * 12 + r) * 12 + c] += 1;
        }
    }
    return {{"x", x}, {"labels", ints({16}, labels)}};
  }

  graph::Graph graph_;
  graph::Builder builder_;
  std::vector<Expr> variables_;
  Expr loss_;
  std::vector<graph::Output> fetches_;
};

TEST(Evaluate, ASmallNetLearnsWithEachOptimizer) {
  for (const auto& optimizer :
       {graph::Optimizer::sgd(), graph::Optimizer::with_momentum(), graph::Optimizer::adam()}) {
    SmallNet net(optimizer);
    ASSERT_TRUE(net.status()) << net.status().error().to_string();
    const auto losses = net.train(60, true);
    ASSERT_EQ(losses.size(), 60U);
    EXPECT_LT(losses.back(), losses.front() / 2);
  }
}

TEST(Evaluate, ReuseAndRepetitionGiveTheSameBits) {
  SmallNet net(graph::Optimizer::with_momentum());
  const auto losses = net.train(5, true);
  EXPECT_EQ(net.train(5, false), losses);
  EXPECT_EQ(net.train(5, true), losses);
}

}  // namespace
}  // namespace ferry::ops
