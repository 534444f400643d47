#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ferry::ops
