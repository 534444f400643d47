#include <gtest/gtest.h>

#include <functional>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A small matrix of doubles.
struct Grid {
  std::size_t columns;
  std::vector<double> cells;
  explicit Grid(const Tensor& x) : columns(static_cast<std::size_t>(x.shape().dim(1))) {
    for (const auto value : values(x)) cells.push_back(static_cast<double>(value));
  }
  double operator()(std::size_t row, std::size_t column) const {
    return cells[row * columns + column];
  }
};

constexpr std::size_t kRows = 3;
constexpr std::size_t kInputs = 5;
constexpr std::size_t kState = 4;

// One gate's sum: x, then `h` of the row, times a column of w.
double gate_sum(const Grid& x, const std::vector<double>& h, const Grid& w, const Tensor& b,
                std::size_t row, std::size_t column) {
  double sum = values(b)[column];
  for (std::size_t i = 0; i < kInputs; ++i) sum += x(row, i) * w(i, column);
  for (std::size_t i = 0; i < kState; ++i) sum += h[i] * w(kInputs + i, column);
  return sum;
}
std::vector<double> row_of(const Grid& grid, std::size_t row) {
  const auto begin = grid.cells.begin() + static_cast<std::ptrdiff_t>(row * grid.columns);
  return {begin, begin + static_cast<std::ptrdiff_t>(grid.columns)};
}

TEST(RecurrentKernels, LstmCell) {
  const auto x = noise({3, 5}, 1);
  const auto h = noise({3, 4}, 2);
  const auto c = noise({3, 4}, 3);
  const auto w = noise({9, 16}, 4);
  const auto b = noise({16}, 5);
  std::vector<double> new_h;
  std::vector<double> new_c;
  std::vector<double> gates(kRows * 4 * kState);
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t j = 0; j < kState; ++j) {
      std::array<double, 4> gate{};
      for (std::size_t g = 0; g < 4; ++g) {
        const auto sum = gate_sum(Grid(x), row_of(Grid(h), row), Grid(w), b, row, g * kState + j);
        gate.at(g) = g == 2 ? std::tanh(sum) : sigmoid(sum);
        gates[row * 4 * kState + g * kState + j] = gate.at(g);
      }
      new_c.push_back(gate[1] * Grid(c)(row, j) + gate[0] * gate[2]);
      new_h.push_back(gate[3] * std::tanh(new_c.back()));
    }
  const auto made = results_of("LstmCell", {x, h, c, w, b});
  expect_close(made[0], new_h, 2e-6);
  expect_close(made[1], new_c, 2e-6);
  expect_close(made[2], gates, 2e-6);
}

TEST(RecurrentKernels, GruCell) {
  const auto x = noise({3, 5}, 1);
  const auto h = noise({3, 4}, 2);
  const auto w = noise({9, 12}, 3);
  const auto b = noise({12}, 4);
  std::vector<double> new_h;
  std::vector<double> gates(kRows * 3 * kState);
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto old = row_of(Grid(h), row);
    auto* own = &gates[row * 3 * kState];
    auto reset = old;
    for (std::size_t j = 0; j < 2 * kState; ++j)
      own[j] = sigmoid(gate_sum(Grid(x), old, Grid(w), b, row, j));
    for (std::size_t j = 0; j < kState; ++j) reset[j] *= own[j];
    for (std::size_t j = 0; j < kState; ++j) {
      own[2 * kState + j] = std::tanh(gate_sum(Grid(x), reset, Grid(w), b, row, 2 * kState + j));
      const auto z = own[kState + j];
      new_h.push_back((1 - z) * own[2 * kState + j] + z * old[j]);
    }
  }
  const auto made = results_of("GruCell", {x, h, w, b});
  expect_close(made[0], new_h, 2e-6);
  expect_close(made[1], gates, 2e-6);
}

// Sequences, and the same as cells one after the other.
constexpr std::int64_t kSteps = 6;

std::vector<Tensor> sequence_inputs(std::int64_t states, std::int64_t gates) {
  std::vector<Tensor> inputs = {noise({kSteps, 3, 5}, 1)};
  for (std::int64_t state = 0; state < states; ++state)
    inputs.push_back(noise({3, 4}, 2 + static_cast<std::uint64_t>(state)));
  inputs.push_back(noise({9, gates * 4}, 5));
  inputs.push_back(noise({gates * 4}, 6));
  return inputs;
}

Expr step_of(Expr x, std::int64_t step) {
  return graph::reshape(graph::slice(x, {step, 0, 0}, {1, -1, -1}), {3, 5});
}
Expr stacked(const std::vector<Expr>& steps) {
  return graph::reshape(graph::concat(steps, 0), {kSteps, 3, 4});
}

Expr unrolled_lstm(const std::vector<Expr>& in) {
  graph::LstmState state{in[1], in[2]};
  std::vector<Expr> steps;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    state = graph::lstm_cell(step_of(in[0], step), state, in[3], in[4]);
    steps.push_back(state.h);
  }
  return stacked(steps);
}
Expr unrolled_gru(const std::vector<Expr>& in) {
  std::vector<Expr> steps = {in[1]};
  for (std::int64_t step = 0; step < kSteps; ++step)
    steps.push_back(graph::gru_cell(step_of(in[0], step), steps.back(), in[2], in[3]));
  return stacked({steps.begin() + 1, steps.end()});
}

// y, and the gradients of its weighted sum, of one way to compute it.
using Way = std::function<Expr(const std::vector<Expr>&)>;
std::vector<Tensor> y_and_gradients(const std::vector<Tensor>& inputs, const Way& way) {
  graph::Graph graph;
  graph::Builder builder(graph);
  Tensors feeds;
  std::vector<Expr> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto name = fmt::format("x{}", i);
    feeds[name] = inputs[i];
    given.push_back(builder.input(name, inputs[i].spec()));
  }
  const auto y = way(given);
  const auto weights = builder.constant(noise({kSteps, 3, 4}, 99));
  std::vector<graph::Output> fetches = {y.output()};
  for (const auto& gradient : graph::gradients(graph::sum(y * weights), given))
    fetches.push_back(gradient.output());
  EXPECT_TRUE(builder.status()) << builder.status().error().to_string();
  Tensors none;
  auto found = evaluate(graph, none, feeds, fetches);
  EXPECT_TRUE(found) << found.error().to_string();
  return found ? *std::move(found) : std::vector<Tensor>();
}

void expect_same(const std::vector<Tensor>& inputs, const Way& a, const Way& b) {
  const auto left = y_and_gradients(inputs, a);
  const auto right = y_and_gradients(inputs, b);
  ASSERT_EQ(left.size(), inputs.size() + 1);
  ASSERT_EQ(right.size(), left.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    SCOPED_TRACE(i == 0 ? "y" : fmt::format("the gradient of input {}", i - 1));
    const auto floats = values(right[i]);
    expect_close(left[i], {floats.begin(), floats.end()}, 1e-5);
  }
}

TEST(RecurrentKernels, LstmIsItsCellsOneAfterTheOther) {
  expect_same(
      sequence_inputs(2, 4),
      [](const std::vector<Expr>& in) {
        return graph::lstm(in[0], {in[1], in[2]}, in[3], in[4]);
      },
      unrolled_lstm);
}

TEST(RecurrentKernels, GruIsItsCellsOneAfterTheOther) {
  expect_same(
      sequence_inputs(1, 3),
      [](const std::vector<Expr>& in) { return graph::gru(in[0], in[1], in[2], in[3]); },
      unrolled_gru);
}

TEST(RecurrentKernels, SequencesMayBeEmpty) {
  const auto h = noise({3, 4}, 1);
  const auto w = noise({9, 16}, 2);
  const auto none = floats({0, 3, 4}, {});
  const auto made = results_of("Lstm", {floats({0, 3, 5}, {}), h, h, w, noise({16}, 3)});
  EXPECT_EQ(made[0].shape().to_string(), "[0, 3, 4]");
  const auto back = results_of(
      "LstmGrad", {none, floats({0, 3, 5}, {}), h, h, w, none, none, floats({0, 3, 16}, {})});
  EXPECT_EQ(values(back[1]), std::vector<float>(12));
  EXPECT_EQ(values(back[3]), std::vector<float>(9 * 16));
  const auto gru = results_of(
      "GruGrad", {none, floats({0, 3, 5}, {}), h, noise({9, 12}, 4), none, floats({0, 3, 12}, {})});
  EXPECT_EQ(values(gru[2]), std::vector<float>(9 * 12));
}

}  // namespace
}  // namespace ferry::ops
