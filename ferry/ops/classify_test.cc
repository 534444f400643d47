#include <gtest/gtest.h>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

std::vector<double> naive_softmax(const Tensor& x, std::size_t width) {
  std::vector<double> y;
  const auto all = values(x);
  for (std::size_t row = 0; row < all.size() / width; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(double{all[row * width + i]});
    for (std::size_t i = 0; i < width; ++i)
      y.push_back(std::exp(double{all[row * width + i]}) / sum);
  }
  return y;
}

TEST(ClassKernels, Softmax) {
  for (const std::int64_t width : {1, 3, 10, 100}) {
    const auto x = noise({4, 2, width}, 1, -5, 5);
    expect_close(result_of("Softmax", {x}), naive_softmax(x, static_cast<std::size_t>(width)),
                 1e-6);
  }
  const auto far = result_of("Softmax", {floats({1, 2}, {1000, 900})});
  EXPECT_EQ(values(far), (std::vector<float>{1, 0}));
}

TEST(ClassKernels, CrossEntropyAndItsSlope) {
  const auto x = noise({5, 7}, 1, -4, 4);
  const std::vector<std::int32_t> labels = {3, 0, -1, 6, 3};
  const auto soft = naive_softmax(x, 7);
  std::vector<double> loss;
  auto slope = soft;
  for (std::size_t row = 0; row < 5; ++row) {
    if (labels[row] < 0) {
      loss.push_back(0);
      std::fill_n(slope.begin() + static_cast<std::ptrdiff_t>(row * 7), 7, 0);
      continue;
    }
    const auto at = row * 7 + static_cast<std::size_t>(labels[row]);
    loss.push_back(-std::log(soft[at]));
    slope[at] -= 1;
  }
  const auto made = results_of("SoftmaxCrossEntropy", {x, ints({5}, labels)});
  expect_close(made[0], loss, 1e-5);
  expect_close(made[1], slope, 1e-6);
  const auto dloss = noise({5}, 2);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] *= values(dloss)[i / 7];
  expect_close(result_of("SoftmaxCrossEntropyGrad", {dloss, made[1]}), slope, 1e-6);
}

TEST(ClassKernels, LabelsOutOfRangeAreRefused) {
  for (const std::int32_t label : {3, -2, 1000000}) {
    const auto x = noise({2, 3}, 1);
    const auto labels = ints({2}, {0, label});
    EXPECT_EQ(code_of(run_op("SoftmaxCrossEntropy", {x, labels})), Code::kInvalidArgument);
    const auto refused = run_op("Accuracy", {x, labels});
    ASSERT_EQ(code_of(refused), Code::kInvalidArgument);
    EXPECT_NE(refused.error().message().find("label 1 is " + std::to_string(label)),
              std::string::npos);
  }
}

TEST(ClassKernels, AccuracyLeavesOutRowsWithoutALabel) {
  const auto x = floats({4, 2}, {1, 2, 2, 1, 5, 6, 1, 1});
  EXPECT_EQ(values(result_of("Accuracy", {x, ints({4}, {1, 1, -1, 0})})),
            std::vector<float>{2.0F / 3});
  EXPECT_EQ(values(result_of("Accuracy", {x, ints({4}, {-1, -1, -1, -1})})), std::vector<float>{0});
}

TEST(RowKernels, EmbeddingLooksRowsUp) {
  const auto table = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto y = result_of("Embedding", {table, ints({2, 2}, {2, 0, 2, 1})});
  EXPECT_EQ(y.shape(), *Shape::of({2, 2, 2}));
  EXPECT_EQ(values(y), (std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4}));
  for (const std::int32_t id : {3, -1})
    EXPECT_EQ(code_of(run_op("Embedding", {table, ints({1}, {id})})), Code::kInvalidArgument);
}

TEST(RowKernels, SparseGradientsHaveEachIdOnce) {
  const auto table = noise({9, 2}, 1);
  const auto dy = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto made = results_of("EmbeddingGrad", {dy, ints({4}, {7, 2, 7, 0}), table});
  EXPECT_EQ(int_values(made[1]), (std::vector<std::int32_t>{0, 2, 7}));
  EXPECT_EQ(values(made[0]), (std::vector<float>{7, 8, 3, 4, 6, 8}));
  const auto none = results_of("EmbeddingGrad", {noise({0, 2}, 1), ints({0}, {}), table});
  EXPECT_EQ(none[0].shape(), *Shape::of({0, 2}));
  EXPECT_EQ(code_of(run_op("EmbeddingGrad", {dy, ints({4}, {9, 2, 7, 0}), table})),
            Code::kInvalidArgument);
}

TEST(RowKernels, DensifyPutsRowsAmongZeros) {
  const auto like = noise({4, 2}, 1);
  const auto rows = floats({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(values(result_of("Densify", {rows, ints({2}, {1, 3}), like})),
            (std::vector<float>{0, 0, 1, 2, 0, 0, 3, 4}));
  EXPECT_EQ(values(result_of("Densify", {rows, ints({2}, {2, 2}), like})),
            (std::vector<float>{0, 0, 0, 0, 4, 6, 0, 0}));
  EXPECT_EQ(code_of(run_op("Densify", {rows, ints({2}, {1, 4}), like})), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::ops
