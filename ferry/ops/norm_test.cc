#include <gtest/gtest.h>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

constexpr double kEpsilon = 1e-3;

// By rows of channels.
struct Table {
  std::size_t rows;
  std::size_t width;
  std::vector<float> x;
  double at(std::size_t row, std::size_t column) const {
    return static_cast<double>(x[row * width + column]);
  }
};

void expect_normalised(const Dims& dims) {
  const auto x = noise(dims, 1, -1, 3);
  const auto width = static_cast<std::size_t>(dims.back());
  const Table table{values(x).size() / width, width, values(x)};
  const auto scale = noise({dims.back()}, 2);
  const auto shift = noise({dims.back()}, 3);
  const auto dy = noise(dims, 4);
  const auto rows = static_cast<double>(table.rows);
  std::vector<double> mean(width);
  std::vector<double> variance(width);
  std::vector<double> y(table.x.size());
  std::vector<double> dx(table.x.size());
  std::vector<double> dscale(width);
  std::vector<double> dshift(width);
  for (std::size_t c = 0; c < width; ++c) {
    for (std::size_t r = 0; r < table.rows; ++r) mean[c] += table.at(r, c) / rows;
    for (std::size_t r = 0; r < table.rows; ++r)
      variance[c] += (table.at(r, c) - mean[c]) * (table.at(r, c) - mean[c]) / rows;
    const auto deviation = std::sqrt(variance[c] + kEpsilon);
    const double gain = values(scale)[c];
    for (std::size_t r = 0; r < table.rows; ++r) {
      const auto normal = (table.at(r, c) - mean[c]) / deviation;
      y[r * width + c] = gain * normal + values(shift)[c];
      dscale[c] += values(dy)[r * width + c] * normal;
      dshift[c] += values(dy)[r * width + c];
    }
    for (std::size_t r = 0; r < table.rows; ++r) {
      const auto normal = (table.at(r, c) - mean[c]) / deviation;
      dx[r * width + c] =
          gain / deviation *
          (values(dy)[r * width + c] - dshift[c] / rows - normal * dscale[c] / rows);
    }
  }
  const auto made = results_of("BatchNorm", {x, scale, shift}, {{"epsilon", kEpsilon}});
  expect_close(made[0], y, 2e-5);
  expect_close(made[1], mean, 1e-5);
  expect_close(made[2], variance, 1e-5);
  const auto back =
      results_of("BatchNormGrad", {dy, x, scale, made[1], made[2]}, {{"epsilon", kEpsilon}});
  expect_close(back[0], dx, 5e-5);
  expect_close(back[1], dscale, 5e-5);
  expect_close(back[2], dshift, 5e-5);
  expect_close(
      result_of("BatchNormApply", {x, scale, shift, made[1], made[2]}, {{"epsilon", kEpsilon}}), y,
      2e-5);
}

TEST(NormKernels, BatchNormAndItsGradients) {
  expect_normalised({5, 3});
  expect_normalised({64, 16});
  expect_normalised({2, 3, 4, 16});
  expect_normalised({2, 5, 5, 7});
  expect_normalised({3, 4, 33});
  expect_normalised({1, 2});
}

TEST(NormKernels, BatchesOfNothingHaveNoMean) {
  EXPECT_EQ(code_of(run_op("BatchNorm", {noise({0, 3}, 1), noise({3}, 2), noise({3}, 3)},
                           {{"epsilon", kEpsilon}})),
            Code::kInvalidArgument);
}

TEST(NormKernels, LocalResponse) {
  for (const std::int64_t size : {1, 3, 4, 5, 9}) {
    const auto x = noise({2, 3, 7}, 1, -2, 2);
    const Attributes how = {{"size", size}, {"alpha", 0.3}, {"beta", 0.75}, {"bias", 1.5}};
    std::vector<double> expected;
    for (std::int64_t row = 0; row < 6; ++row)
      for (std::int64_t c = 0; c < 7; ++c) {
        double sum = 0;
        for (auto i = std::max<std::int64_t>(0, c - size / 2);
             i <= std::min<std::int64_t>(6, c + (size - 1) / 2); ++i) {
          const double value = values(x)[static_cast<std::size_t>(row * 7 + i)];
          sum += value * value;
        }
        const auto base = 1.5 + 0.3 / static_cast<double>(size) * sum;
        expected.push_back(values(x)[static_cast<std::size_t>(row * 7 + c)] / std::pow(base, 0.75));
      }
    expect_close(result_of("Lrn", {x}, how), expected, 1e-6);
  }
}

}  // namespace
}  // namespace ferry::ops
