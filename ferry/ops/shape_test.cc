#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ferry/ops/kit_internal.h"

namespace ferry::ops {
namespace {

using namespace kit;

Dims index_of(std::size_t at, const Dims& dims) {
  Dims index(dims.size());
  for (auto axis = dims.size(); axis-- > 0;) {
    index[axis] = static_cast<std::int64_t>(at) % dims[axis];
    at /= static_cast<std::size_t>(dims[axis]);
  }
  return index;
}
std::size_t place_of(const Dims& index, const Dims& dims) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) at = at * dims[axis] + index[axis];
  return static_cast<std::size_t>(at);
}
Dims dims_of(const Tensor& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }

void expect_transposed(const Dims& dims, const Dims& order) {
  const auto x = noise(dims, 1);
  const auto y = result_of("Transpose", {x}, {{"order", order}});
  for (std::size_t i = 0; i < values(x).size(); ++i) {
    const auto from = index_of(i, dims);
    Dims to;
    for (const auto axis : order) to.push_back(from[static_cast<std::size_t>(axis)]);
    ASSERT_EQ(y.elements<float>()[place_of(to, dims_of(y))], x.elements<float>()[i]);
  }
}

TEST(ShapeKernels, TransposeInAnyOrder) {
  expect_transposed({3, 5}, {1, 0});
  expect_transposed({33, 70}, {1, 0});
  expect_transposed({2, 3, 4}, {2, 0, 1});
  expect_transposed({2, 3, 4}, {0, 2, 1});
  expect_transposed({2, 3, 4, 5}, {0, 3, 1, 2});
  expect_transposed({2, 3, 4, 5}, {0, 2, 3, 1});
  expect_transposed({2, 1, 4, 5}, {3, 2, 1, 0});
  expect_transposed({7}, {0});
  expect_transposed({}, {});
}

TEST(ShapeKernels, TransposeOtherTypes) {
  const auto bytes = tensor_of<std::uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6}, ElementType::kU8);
  const auto y = result_of("Transpose", {bytes}, {{"order", Dims{1, 0}}});
  EXPECT_TRUE(same_bits(y, tensor_of<std::uint8_t>({3, 2}, {1, 4, 2, 5, 3, 6}, ElementType::kU8)));
  const auto wide = tensor_of<std::int64_t>({2, 2}, {1, 2, 3, 4}, ElementType::kI64);
  EXPECT_TRUE(same_bits(result_of("Transpose", {wide}, {{"order", Dims{1, 0}}}),
                        tensor_of<std::int64_t>({2, 2}, {1, 3, 2, 4}, ElementType::kI64)));
}

TEST(ShapeKernels, ConcatAlongEachAxis) {
  const auto a = floats({1, 2, 2}, {1, 2, 3, 4});
  const auto b = floats({1, 1, 2}, {5, 6});
  EXPECT_EQ(values(result_of("Concat", {a, b}, {{"axis", std::int64_t{1}}})),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto c = floats({1, 2, 1}, {7, 8});
  EXPECT_EQ(values(result_of("Concat", {a, c}, {{"axis", std::int64_t{-1}}})),
            (std::vector<float>{1, 2, 7, 3, 4, 8}));
  EXPECT_EQ(values(result_of("Concat", {a, a}, {{"axis", std::int64_t{0}}})),
            (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4}));
}

// A slice, and that slice put back among zeros.
void expect_sliced(const Dims& dims, const Dims& begin, const Dims& size) {
  const auto x = noise(dims, 1);
  const auto y = result_of("Slice", {x}, {{"begin", begin}, {"size", size}});
  const auto back = result_of("SliceGrad", {y, x}, {{"begin", begin}});
  std::size_t inside = 0;
  for (std::size_t i = 0; i < values(x).size(); ++i) {
    auto index = index_of(i, dims);
    bool is_inside = true;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      index[axis] -= begin[axis];
      is_inside = is_inside && index[axis] >= 0 && index[axis] < y.shape().dim(axis);
    }
    ASSERT_EQ(values(back)[i], is_inside ? values(x)[i] : 0);
    if (!is_inside) continue;
    ASSERT_EQ(values(y)[place_of(index, dims_of(y))], values(x)[i]);
    ++inside;
  }
  EXPECT_EQ(inside, values(y).size());
}

TEST(ShapeKernels, SliceAndItsGradient) {
  expect_sliced({5}, {1}, {3});
  expect_sliced({5, 3}, {1, 0}, {2, -1});
  expect_sliced({5, 3}, {0, 1}, {5, 1});
  expect_sliced({5, 3}, {2, 1}, {-1, 2});
  expect_sliced({2, 3, 4, 5}, {1, 1, 1, 1}, {1, 2, 2, 3});
  expect_sliced({2, 3, 4}, {0, 1, 0}, {2, 1, 4});
  expect_sliced({2, 3}, {0, 3}, {2, 0});
  expect_sliced({}, {}, {});
}

void expect_reduced(const Dims& dims, const Dims& axes) {
  const auto x = noise(dims, 1);
  std::vector<bool> reduced(dims.size(), axes.empty());
  for (const auto axis : axes)
    reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(dims.size())
                                              : axis)] = true;
  std::map<Dims, std::vector<double>> groups;
  for (std::size_t i = 0; i < values(x).size(); ++i) {
    auto index = index_of(i, dims);
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      if (reduced[axis]) index[axis] = 0;
    groups[index].push_back(static_cast<double>(values(x)[i]));
  }
  std::vector<double> sum;
  std::vector<double> mean;
  std::vector<double> max;
  for (const auto& [index, group] : groups) {
    double total = 0;
    for (const auto value : group) total += value;
    sum.push_back(total);
    mean.push_back(total / static_cast<double>(group.size()));
    max.push_back(*std::max_element(group.begin(), group.end()));
  }
  for (const auto keep : {false, true}) {
    const Attributes how = {{"axes", axes}, {"keep", keep}};
    expect_close(result_of("Sum", {x}, how), sum);
    expect_close(result_of("Mean", {x}, how), mean);
    const auto most = result_of("Max", {x}, how);
    expect_close(most, max, 0);
    const auto dy = noise(dims_of(most), 2);
    const auto dx = result_of("MaxGrad", {dy, x, most}, how);
    std::size_t group = 0;
    std::map<Dims, std::size_t> order;
    for (const auto& entry : groups) order[entry.first] = group++;
    for (std::size_t i = 0; i < values(x).size(); ++i) {
      auto index = index_of(i, dims);
      for (std::size_t axis = 0; axis < dims.size(); ++axis)
        if (reduced[axis]) index[axis] = 0;
      const auto to = order[index];
      ASSERT_EQ(values(dx)[i], values(x)[i] == values(most)[to] ? values(dy)[to] : 0);
    }
  }
}

TEST(ReduceKernels, OverAnyAxes) {
  expect_reduced({7}, {});
  expect_reduced({}, {});
  expect_reduced({3, 5}, {});
  expect_reduced({3, 5}, {0});
  expect_reduced({3, 5}, {-1});
  expect_reduced({2, 3, 4, 5}, {1, 3});
  expect_reduced({2, 3, 4, 5}, {0, 2});
  expect_reduced({2, 3, 4, 5}, {0, 1, 2});
  expect_reduced({2, 1, 4}, {1});
  expect_reduced({2, 3, 1}, {2});
  expect_reduced({40, 41}, {1});
}

TEST(ReduceKernels, LargeSumsOnSeveralThreads) {
  const auto x = floats({300, 400}, std::vector<float>(120000, 0.5F));
  EXPECT_EQ(values(result_of("Sum", {x}, {{"axes", Dims{1}}})), std::vector<float>(300, 200));
  EXPECT_EQ(values(result_of("Sum", {x}, {{"axes", Dims{0}}})), std::vector<float>(400, 150));
  EXPECT_EQ(values(result_of("Mean", {x})), std::vector<float>{0.5F});
}

TEST(ReduceKernels, SumToUndoesBroadcasting) {
  const auto x = noise({4, 2, 3}, 1);
  const auto sums = [&](const Dims& like, auto group) {
    std::vector<double> expected(static_cast<std::size_t>(Shape::of(like)->elements()));
    for (std::size_t i = 0; i < 24; ++i)
      expected[group(i / 6, i / 3 % 2, i % 3)] += static_cast<double>(values(x)[i]);
    expect_close(result_of("SumTo", {x, noise(like, 2)}), expected);
  };
  using S = std::size_t;
  sums({3}, [](S, S, S c) { return c; });
  sums({2, 3}, [](S, S b, S c) { return b * 3 + c; });
  sums({2, 1}, [](S, S b, S) { return b; });
  sums({4, 1, 3}, [](S a, S, S c) { return a * 3 + c; });
  sums({}, [](S, S, S) { return S{0}; });
  sums({4, 2, 3}, [](S a, S b, S c) { return a * 6 + b * 3 + c; });
}

TEST(ReduceKernels, ArgMaxTakesTheFirstOfEquals) {
  const auto x = floats({2, 3}, {1, 3, 3, 2, 2, 1});
  EXPECT_EQ(int_values(result_of("ArgMax", {x})), (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(code_of(run_op("ArgMax", {noise({2, 0}, 1)})), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::ops
