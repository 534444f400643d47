#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ferry/ops/kit_internal.h"
#include "ferry/ops/threads.h"

namespace ferry::ops {
namespace {

using namespace kit;

TEST(MatMulKernel, InAllFourDirections) {
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {3, 5, 7}, {17, 33, 9}, {2, 0, 3}, {0, 4, 3}, {64, 65, 66}}) {
    for (const auto turn_a : {false, true}) {
      for (const auto turn_b : {false, true}) {
        const auto a = noise(turn_a ? Dims{k, m} : Dims{m, k}, 1);
        const auto b = noise(turn_b ? Dims{n, k} : Dims{k, n}, 2);
        const auto as = values(a);
        const auto bs = values(b);
        std::vector<double> expected;
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < k; ++l)
              sum +=
                  static_cast<double>(
                      as[static_cast<std::size_t>(turn_a ? l * m + i : i * k + l)]) *
                  static_cast<double>(bs[static_cast<std::size_t>(turn_b ? j * k + l : l * n + j)]);
            expected.push_back(sum);
          }
        expect_close(
            result_of("MatMul", {a, b}, {{"transpose_a", turn_a}, {"transpose_b", turn_b}}),
            expected);
      }
    }
  }
}

// Images, filters or pools, and every pair of an element and the place of the window that sees it.
struct Scene {
  std::int64_t n, h, w, c, o, kh, kw;
  Dims strides;
  Dims pads;

  std::int64_t places(std::int64_t size, std::int64_t window, std::size_t axis) const {
    return (size + pads[axis] + pads[axis + 2] - window) / strides[axis] + 1;
  }
  std::int64_t oh() const { return places(h, kh, 0); }
  std::int64_t ow() const { return places(w, kw, 1); }
  Dims x_dims() const { return {n, h, w, c}; }
  Dims w_dims() const { return {kh, kw, c, o}; }
  Dims y_dims(std::int64_t channels) const { return {n, oh(), ow(), channels}; }
  Attributes attributes() const { return {{"strides", strides}, {"pads", pads}}; }
  Attributes pool() const {
    return {{"strides", strides}, {"pads", pads}, {"window", Dims{kh, kw}}};
  }

  // use(pixel of x, pixel of y, position in the window), in row order of y and of the window.
  template <class Use>
  void each(Use use) const {
    for (std::int64_t b = 0; b < n; ++b)
      for (std::int64_t i = 0; i < oh(); ++i)
        for (std::int64_t j = 0; j < ow(); ++j)
          for (std::int64_t u = 0; u < kh; ++u)
            for (std::int64_t v = 0; v < kw; ++v) {
              const auto row = i * strides[0] - pads[0] + u;
              const auto column = j * strides[1] - pads[1] + v;
              if (row < 0 || row >= h || column < 0 || column >= w) continue;
              use(static_cast<std::size_t>((b * h + row) * w + column),
                  static_cast<std::size_t>((b * oh() + i) * ow() + j),
                  static_cast<std::size_t>(u * kw + v));
            }
  }
};

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all = {
      {1, 4, 4, 1, 1, 3, 3, {1, 1}, {0, 0, 0, 0}},   {2, 5, 7, 3, 4, 3, 3, {1, 1}, {1, 1, 1, 1}},
      {2, 8, 6, 16, 16, 3, 3, {1, 1}, {1, 1, 1, 1}}, {1, 9, 9, 3, 5, 3, 2, {2, 2}, {1, 0, 1, 1}},
      {3, 7, 7, 8, 32, 1, 1, {1, 1}, {0, 0, 0, 0}},  {2, 7, 7, 32, 8, 1, 1, {2, 2}, {0, 0, 0, 0}},
      {1, 8, 8, 3, 16, 5, 5, {3, 2}, {2, 2, 1, 2}},  {2, 6, 6, 17, 19, 2, 2, {2, 2}, {0, 0, 0, 0}},
      {2, 5, 5, 16, 2, 3, 3, {2, 2}, {0, 1, 1, 0}}};
  return all;
}

std::vector<double> doubles(const Tensor& x) {
  const auto all = values(x);
  return {all.begin(), all.end()};
}

TEST(ConvKernels, ForwardAndBothGradients) {
  for (const auto& scene : scenes()) {
    const auto x = noise(scene.x_dims(), 1);
    const auto w = noise(scene.w_dims(), 2);
    const auto dy = noise(scene.y_dims(scene.o), 3);
    const auto xs = doubles(x);
    const auto ws = doubles(w);
    const auto dys = doubles(dy);
    std::vector<double> y(dys.size());
    std::vector<double> dx(xs.size());
    std::vector<double> dw(ws.size());
    const auto c = static_cast<std::size_t>(scene.c);
    const auto o = static_cast<std::size_t>(scene.o);
    scene.each([&](std::size_t in, std::size_t out, std::size_t at) {
      for (std::size_t i = 0; i < c; ++i)
        for (std::size_t j = 0; j < o; ++j) {
          y[out * o + j] += xs[in * c + i] * ws[(at * c + i) * o + j];
          dx[in * c + i] += dys[out * o + j] * ws[(at * c + i) * o + j];
          dw[(at * c + i) * o + j] += dys[out * o + j] * xs[in * c + i];
        }
    });
    expect_close(result_of("Conv2D", {x, w}, scene.attributes()), y);
    expect_close(result_of("Conv2DGradInput", {dy, w, x}, scene.attributes()), dx);
    expect_close(result_of("Conv2DGradFilter", {dy, x, w}, scene.attributes()), dw, 2e-5);
  }
}

TEST(ConvKernels, BatchesOfNothing) {
  const auto x = noise({0, 4, 4, 3}, 1);
  const auto w = noise({3, 3, 3, 2}, 2);
  const auto y = result_of("Conv2D", {x, w});
  EXPECT_EQ(y.shape(), *Shape::of({0, 2, 2, 2}));
  EXPECT_EQ(values(result_of("Conv2DGradFilter", {y, x, w})), std::vector<float>(54, 0));
}

TEST(ConvKernels, CountReorders) {
  const auto before = reorders();
  result_of("Conv2D", {noise({1, 8, 8, 16}, 1), noise({3, 3, 16, 16}, 2)});
  const auto after = reorders();
  // Whether there are any is the primitive's choice; each moves all filters.
  const auto count = after.count - before.count;
  EXPECT_GE(after.bytes - before.bytes, count * 3 * 3 * 16 * 16 * sizeof(float));
}

TEST(PoolKernels, ForwardAndGradients) {
  for (const auto& scene : scenes()) {
    if (scene.kh == 1) continue;
    const auto x = noise(scene.x_dims(), 1);
    const auto dy = noise(scene.y_dims(scene.c), 2);
    const auto xs = doubles(x);
    const auto dys = doubles(dy);
    const auto c = static_cast<std::size_t>(scene.c);
    std::vector<double> most(dys.size(), -std::numeric_limits<double>::infinity());
    std::vector<double> mean(dys.size());
    std::vector<double> seen(dys.size());
    scene.each([&](std::size_t in, std::size_t out, std::size_t) {
      for (std::size_t i = 0; i < c; ++i) {
        most[out * c + i] = std::max(most[out * c + i], xs[in * c + i]);
        mean[out * c + i] += xs[in * c + i];
        seen[out * c + i] += 1;
      }
    });
    std::vector<double> max_dx(xs.size());
    std::vector<double> mean_dx(xs.size());
    std::vector<bool> found(dys.size());
    scene.each([&](std::size_t in, std::size_t out, std::size_t) {
      for (std::size_t i = 0; i < c; ++i) {
        mean_dx[in * c + i] += dys[out * c + i] / seen[out * c + i];
        if (found[out * c + i] || xs[in * c + i] != most[out * c + i]) continue;
        found[out * c + i] = true;
        max_dx[in * c + i] += dys[out * c + i];
      }
    });
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] /= seen[i];
    const auto y = result_of("MaxPool", {x}, scene.pool());
    expect_close(y, most, 0);
    expect_close(result_of("MaxPoolGrad", {dy, x, y}, scene.pool()), max_dx);
    expect_close(result_of("AvgPool", {x}, scene.pool()), mean);
    expect_close(result_of("AvgPoolGrad", {dy, x}, scene.pool()), mean_dx);
  }
}

TEST(PoolKernels, GradientsGoToTheFirstOfEquals) {
  const Attributes how = {{"window", Dims{2, 2}}, {"strides", Dims{2, 2}}};
  const auto x = floats({1, 2, 2, 1}, {1, 3, 3, 3});
  const auto y = result_of("MaxPool", {x}, how);
  EXPECT_EQ(values(y), std::vector<float>{3});
  EXPECT_EQ(values(result_of("MaxPoolGrad", {floats({1, 1, 1, 1}, {5}), x, y}, how)),
            (std::vector<float>{0, 5, 0, 0}));
}

// The same node sees other shapes, and other numbers of threads, from step to step.
TEST(ConvKernels, ShapesMayChangeFromRunToRun) {
  graph::Graph graph;
  graph::Builder builder(graph);
  const auto x = builder.input("x", spec({-1, -1, -1, 3}));
  const auto w = builder.input("w", spec({3, 3, 3, 8}));
  const auto y = builder.add("Conv2D", {x, w});
  ASSERT_TRUE(builder.status());
  auto kernel = *make_kernel(graph.node(y.output().node));
  const auto filters = noise({3, 3, 3, 8}, 2);
  struct Context final : KernelContext {
    std::vector<Tensor> in;
    std::vector<Tensor> memory;
    Tensor out;
    std::size_t inputs() const override { return in.size(); }
    const Tensor& input(std::size_t index) const override { return in[index]; }
    Result<Tensor> output(std::uint32_t, const Spec& wanted) override {
      return out = *make_tensor(wanted);
    }
    void pass(std::uint32_t, Tensor value) override { out = value; }
    Result<std::span<std::byte>> scratch(std::uint64_t bytes) override {
      memory.push_back(*make_tensor(spec({static_cast<std::int64_t>(bytes)}, ElementType::kU8)));
      return memory.back().bytes();
    }
    Result<Tensor> variable(std::string_view) override { return fail(Code::kNotFound, "none"); }
    Result<Tensor> fed(std::string_view) override { return fail(Code::kNotFound, "none"); }
    std::uint64_t step() const override { return 1; }
  };
  const auto threads_before = threads();
  for (const unsigned count : {1U, 2U, 1U}) {
    set_threads(count);
    for (const std::int64_t size : {5, 8, 5}) {
      Context context;
      context.in = {noise({2, size, size, 3}, 1), filters};
      ASSERT_TRUE(kernel->run(context));
      const auto expected = result_of("Conv2D", {context.in[0], filters});
      expect_close(context.out, doubles(expected), 1e-6);
    }
  }
  set_threads(threads_before);
}

}  // namespace
}  // namespace ferry::ops
