#include "ferry/graph/gradient.h"

#include <gtest/gtest.h>

#include <functional>

#include "ferry/graph/functions.h"
#include "ferry/ops/kit_internal.h"

// What gradients() builds, run, against differences of the function itself.

namespace ferry::ops {
namespace {

using namespace kit;
using Exprs = std::vector<Expr>;

class GradientCheck {
 public:
  using Build = std::function<Expr(const Exprs&)>;

  // `inputs` are what the gradients are of; `build` makes y from them.
  GradientCheck(const std::vector<Tensor>& inputs, const Build& build) : builder_(graph_) {
    Exprs given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto name = "x" + std::to_string(i);
      feeds_[name] = inputs[i];
      given.push_back(builder_.input(name, inputs[i].spec()));
    }
    y_ = build(given);
    if (!y_) return;
    weights_ = noise({y_.spec().shape.dims().begin(), y_.spec().shape.dims().end()}, 99);
    loss_ = graph::sum(y_ * builder_.constant(weights_));
    for (auto& gradient : graph::gradients(loss_, given)) gradients_.push_back(gradient);
    for (std::size_t i = 0; i < gradients_.size() && builder_.status(); ++i)
      gradients_[i] = graph::dense(gradients_[i], given[i]);
  }

  void expect_right(double step = 1e-2, double tolerance = 4e-3) {
    ASSERT_TRUE(builder_.status()) << builder_.status().error().to_string();
    std::vector<graph::Output> fetches;
    for (const auto& gradient : gradients_) fetches.push_back(gradient.output());
    const auto found = fetch(fetches);
    for (std::size_t i = 0; i < found.size(); ++i) compare(i, found[i], step, tolerance);
  }

 private:
  std::vector<Tensor> fetch(const std::vector<graph::Output>& fetches) {
    Tensors none;
    auto found = evaluate(graph_, none, feeds_, fetches);
    EXPECT_TRUE(found) << found.error().to_string();
    return *found;
  }
  // In double precision, so that differences are worth something.
  double loss() {
    const auto y = fetch({y_.output()})[0];
    double sum = 0;
    for (std::size_t i = 0; i < y.elements<float>().size(); ++i)
      sum += double{y.elements<float>()[i]} * double{weights_.elements<float>()[i]};
    return sum;
  }
  void compare(std::size_t input, const Tensor& gradient, double step, double tolerance) {
    const auto x = feeds_["x" + std::to_string(input)].elements<float>();
    ASSERT_EQ(gradient.elements<float>().size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto before = x[i];
      x[i] = before + static_cast<float>(step);
      const auto above = loss();
      const auto high = double{x[i]};
      x[i] = before - static_cast<float>(step);
      const auto below = loss();
      const auto slope = (above - below) / (high - double{x[i]});
      x[i] = before;
      ASSERT_NEAR(gradient.elements<float>()[i], slope, tolerance * (1 + std::abs(slope)))
          << "input " << input << ", element " << i;
    }
  }

  graph::Graph graph_;
  graph::Builder builder_;
  Tensors feeds_;
  Expr y_;
  Expr loss_;
  Tensor weights_;
  Exprs gradients_;
};

void check_gradients(const std::vector<Tensor>& inputs, const GradientCheck::Build& build,
                     double step = 1e-2, double tolerance = 4e-3) {
  GradientCheck(inputs, build).expect_right(step, tolerance);
}

TEST(GradientKernels, Binaries) {
  using namespace graph;
  for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{
           {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{}, {4}}, {{2, 2, 2}, {2, 1}}}) {
    const std::vector<Tensor> in = {noise(a, 1, 1, 2), noise(b, 2, 1, 2)};
    check_gradients(in, [](const Exprs& x) { return x[0] + x[1]; });
    check_gradients(in, [](const Exprs& x) { return x[0] - x[1]; });
    check_gradients(in, [](const Exprs& x) { return x[0] * x[1]; });
    check_gradients(in, [](const Exprs& x) { return x[0] / x[1]; });
    check_gradients(
        in, [](const Exprs& x) { return maximum(x[0], x[1]); }, 1e-4, 3e-2);
  }
}

TEST(GradientKernels, Curves) {
  using namespace graph;
  const std::vector<Tensor> any = {noise({3, 4}, 1, -2, 2)};
  const std::vector<Tensor> positive = {noise({3, 4}, 2, 0.5, 2)};
  check_gradients(any, [](const Exprs& x) { return -x[0]; });
  check_gradients(any, [](const Exprs& x) { return exp(x[0]); });
  check_gradients(positive, [](const Exprs& x) { return log(x[0]); });
  check_gradients(positive, [](const Exprs& x) { return sqrt(x[0]); });
  check_gradients(any, [](const Exprs& x) { return square(x[0]); });
  check_gradients(
      any, [](const Exprs& x) { return relu(x[0]); }, 1e-3, 1e-2);
  check_gradients(any, [](const Exprs& x) { return sigmoid(x[0]); });
  check_gradients(any, [](const Exprs& x) { return tanh(x[0]); });
  check_gradients(any, [](const Exprs& x) { return 3 * x[0]; });
  check_gradients(any, [](const Exprs& x) { return dropout(x[0], 0.5, 7); });
  check_gradients(any, [](const Exprs& x) { return add_n({x[0], x[0], tanh(x[0])}); });
}

TEST(GradientKernels, Shapes) {
  using namespace graph;
  const std::vector<Tensor> in = {noise({2, 3, 4}, 1), noise({2, 2, 4}, 2)};
  const std::vector<Tensor> one = {in[0]};
  check_gradients(one, [](const Exprs& x) { return transpose(x[0], {2, 0, 1}); });
  check_gradients(one, [](const Exprs& x) { return reshape(x[0], {6, -1}); });
  check_gradients(one, [](const Exprs& x) { return slice(x[0], {0, 1, 1}, {2, 2, -1}); });
  check_gradients(in, [](const Exprs& x) { return concat({x[0], x[1], x[0]}, 1); });
  check_gradients(one, [](const Exprs& x) { return sum(x[0], {1}); });
  check_gradients(one, [](const Exprs& x) { return sum(x[0], {0, 2}, true); });
  check_gradients(one, [](const Exprs& x) { return mean(x[0], {-1}); });
  check_gradients(one, [](const Exprs& x) { return mean(x[0]); });
  check_gradients(
      one, [](const Exprs& x) { return max(x[0], {1}); }, 1e-4, 3e-2);
  check_gradients(
      one,
      [](const Exprs& x) {
        return max(x[0], {0, 2}, true);
      },
      1e-4, 3e-2);
  check_gradients({noise({1, 4}, 1), noise({3, 4}, 2)},
                  [](const Exprs& x) { return broadcast_to(x[0], x[1]) * x[1]; });
  check_gradients({noise({3, 4}, 1), noise({1, 4}, 2)},
                  [](const Exprs& x) { return sum_to(x[0], x[1]) * x[1]; });
}

TEST(GradientKernels, Products) {
  using namespace graph;
  for (const auto turn_a : {false, true})
    for (const auto turn_b : {false, true})
      check_gradients(
          {noise(turn_a ? Dims{4, 3} : Dims{3, 4}, 1), noise(turn_b ? Dims{5, 4} : Dims{4, 5}, 2)},
          [=](const Exprs& x) { return matmul(x[0], x[1], turn_a, turn_b); });
}

TEST(GradientKernels, Images) {
  using namespace graph;
  const std::vector<Tensor> in = {noise({2, 5, 4, 3}, 1), noise({3, 2, 3, 4}, 2)};
  check_gradients(in, [](const Exprs& x) { return conv2d(x[0], x[1]); });
  check_gradients(in, [](const Exprs& x) {
    return conv2d(x[0], x[1], {.strides = {2, 1}, .pads = {1, 0, 1, 1}});
  });
  const Sliding sliding{.strides = {2, 2}, .pads = {1, 1, 0, 1}};
  check_gradients({in[0]}, [&](const Exprs& x) { return avg_pool(x[0], {2, 3}, sliding); });
  check_gradients(
      {in[0]},
      [&](const Exprs& x) {
        return max_pool(x[0], {2, 3}, sliding);
      },
      1e-4, 3e-2);
}

TEST(GradientKernels, Norms) {
  using namespace graph;
  const std::vector<Tensor> in = {noise({4, 3, 3}, 1, -2, 2), noise({3}, 2, 0.5, 2), noise({3}, 3)};
  check_gradients(in, [](const Exprs& x) { return batch_norm(x[0], x[1], x[2], 1e-2); });
  const LrnOptions wide{.size = 5, .alpha = 0.9, .beta = 0.75, .bias = 1};
  const LrnOptions even{.size = 2, .alpha = 0.9, .beta = 0.5, .bias = 2};
  check_gradients({noise({2, 7}, 1, -2, 2)}, [&](const Exprs& x) { return lrn(x[0], wide); });
  check_gradients({noise({2, 7}, 1, -2, 2)}, [&](const Exprs& x) { return lrn(x[0], even); });
}

TEST(GradientKernels, Classes) {
  using namespace graph;
  check_gradients({noise({3, 5}, 1, -2, 2)}, [](const Exprs& x) { return softmax(x[0]); });
  const auto labels = ints({3}, {4, -1, 0});
  check_gradients({noise({3, 5}, 1, -2, 2)}, [&](const Exprs& x) {
    return softmax_cross_entropy(x[0], x[0].builder()->constant(labels));
  });
  const auto ids = ints({4}, {2, 0, 2, 5});
  check_gradients({noise({6, 3}, 1)}, [&](const Exprs& x) {
    return tanh(embedding(x[0], x[0].builder()->constant(ids)));
  });
}

TEST(GradientKernels, Recurrences) {
  using namespace graph;
  // Two steps, so that gradients flow into the state too.
  check_gradients(
      {noise({2, 3}, 1), noise({2, 4}, 2), noise({2, 4}, 3), noise({7, 16}, 4), noise({16}, 5)},
      [](const Exprs& x) {
        const auto once = lstm_cell(x[0], {x[1], x[2]}, x[3], x[4]);
        const auto twice = lstm_cell(x[0], once, x[3], x[4]);
        return concat({twice.h, twice.c, once.h}, 1);
      });
  check_gradients({noise({2, 3}, 1), noise({2, 4}, 2), noise({7, 12}, 3), noise({12}, 4)},
                  [](const Exprs& x) {
                    const auto once = gru_cell(x[0], x[1], x[2], x[3]);
                    return gru_cell(x[0], once, x[2], x[3]) + once;
                  });
}

TEST(GradientKernels, Sequences) {
  using namespace graph;
  check_gradients(
      {noise({3, 2, 3}, 1), noise({2, 4}, 2), noise({2, 4}, 3), noise({7, 16}, 4), noise({16}, 5)},
      [](const Exprs& x) {
        return lstm(x[0], {x[1], x[2]}, x[3], x[4]);
      });
  check_gradients({noise({3, 2, 3}, 1), noise({2, 4}, 2), noise({7, 12}, 3), noise({12}, 4)},
                  [](const Exprs& x) { return gru(x[0], x[1], x[2], x[3]); });
}

}  // namespace
}  // namespace ferry::ops
