#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "ferry/math/elements.h"
#include "ferry/math/random.h"
#include "ferry/math/reduce.h"
#include "ferry/math/sum.h"
#include "ferry/math/variants_internal.h"

namespace ferry::math {
namespace {

std::vector<float> numbers(std::size_t n, std::uint64_t key, double scale = 4) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>((random_unit(key, i) - 0.5) * scale);
  return values;
}

template <class T>
std::vector<std::uint32_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint32_t> bits;
  for (const auto value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

// What `make` returns is the same, bit by bit, whatever the instruction set.
void expect_same_in_all_variants(const std::function<std::vector<float>()>& make) {
  use_at_most(Variant::kPlain);
  const auto plain = bits_of(make());
  for (const auto most : {Variant::kAvx2, Variant::kAvx512}) {
    use_at_most(most);
    EXPECT_EQ(bits_of(make()), plain);
  }
}

constexpr std::array<std::size_t, 6> kLengths = {0, 1, 15, 17, 1024, 2049};

TEST(Sum, AddsFromTheFirstToTheLast) {
  for (const auto n : kLengths) {
    for (const std::size_t count : {1U, 2U, 3U, 5U}) {
      std::vector<std::vector<float>> parts;
      std::vector<const float*> sources;
      for (std::size_t part = 0; part < count; ++part) parts.push_back(numbers(n, part));
      for (const auto& part : parts) sources.push_back(part.data());
      std::vector<float> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        volatile float value = parts[0][i];
        for (std::size_t part = 1; part < count; ++part) value = value + parts[part][i];
        expected[i] = value * 0.3F;
      }
      std::vector<float> found(n);
      sum({sources, 0.3F}, found.data(), n);
      EXPECT_EQ(bits_of(found), bits_of(expected));
      sum({sources, 0.3F}, parts[count - 1].data(), n);
      EXPECT_EQ(bits_of(parts[count - 1]), bits_of(expected)) << "in place";
    }
  }
}

TEST(Sum, GivesTheSameBitsInAllVariants) {
  expect_same_in_all_variants([] {
    const auto a = numbers(2049, 1);
    const auto b = numbers(2049, 2);
    const std::array<const float*, 3> sources = {a.data(), b.data(), a.data()};
    std::vector<float> y(a.size());
    sum({sources, 0.1F}, y.data(), y.size());
    return y;
  });
}

TEST(Elements, UnariesAreCloseAndTheSameInAllVariants) {
  struct Case {
    Unary op;
    double (*reference)(double);
    double scale;
  };
  const std::vector<Case> cases = {
      {Unary::kNeg, [](double x) { return -x; }, 4},
      {Unary::kExp, [](double x) { return std::exp(x); }, 170},
      {Unary::kSquare, [](double x) { return x * x; }, 4},
      {Unary::kRelu, [](double x) { return x < 0 ? 0 : x; }, 4},
      {Unary::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 40},
      {Unary::kTanh, [](double x) { return std::tanh(x); }, 8},
  };
  for (const auto& one : cases) {
    const auto x = numbers(1023, 3, one.scale);
    std::vector<float> y(x.size());
    unary(one.op, x.data(), y.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto expected = one.reference(static_cast<double>(x[i]));
      EXPECT_NEAR(y[i], expected, 4e-7 * std::abs(expected) + 1e-38) << "of " << x[i];
    }
    expect_same_in_all_variants([&] {
      auto z = x;
      unary(one.op, z.data(), z.data(), z.size());
      return z;
    });
  }
}

TEST(Elements, RootsAndLogarithmsOfPositiveNumbers) {
  auto x = numbers(1023, 4, 20);
  for (auto& value : x) value = std::abs(value) * std::abs(value) + 1e-6F;
  std::vector<float> root(x.size());
  std::vector<float> log(x.size());
  unary(Unary::kSqrt, x.data(), root.data(), x.size());
  unary(Unary::kLog, x.data(), log.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(root[i], std::sqrt(x[i]));
    const auto expected = std::log(static_cast<double>(x[i]));
    EXPECT_NEAR(log[i], expected, 4e-7 * std::abs(expected) + 2e-8) << "of " << x[i];
  }
}

TEST(Elements, AtTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {kInfinity, -kInfinity, kNan, 0, 89, -104};
  std::vector<float> y(x.size());
  unary(Unary::kExp, x.data(), y.data(), x.size());
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], kInfinity);
  EXPECT_EQ(y[5], 0);
  unary(Unary::kLog, x.data(), y.data(), x.size());
  EXPECT_EQ(y[0], kInfinity);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -kInfinity);
  unary(Unary::kTanh, x.data(), y.data(), x.size());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -1);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(Elements, BinariesTakeScalarsOnEitherSide) {
  const auto a = numbers(37, 5);
  const auto b = numbers(37, 6);
  std::vector<float> y(37);
  binary(Binary::kSub, {a.data(), true}, {b.data(), false}, y.data(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], a[0] - b[i]);
  binary(Binary::kSub, {a.data(), false}, {b.data(), true}, y.data(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], a[i] - b[0]);
  binary(Binary::kSub, {a.data(), true}, {b.data(), true}, y.data(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], a[0] - b[0]);
  binary(Binary::kReluGrad, {a.data(), false}, {b.data(), false}, y.data(), y.size());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], b[i] > 0 ? a[i] : 0);
}

TEST(Reduce, SumsInDoublePrecision) {
  for (const auto n : kLengths) {
    const auto x = numbers(n, 7);
    double sum = 0;
    float most = -std::numeric_limits<float>::infinity();
    for (const auto value : x) sum += static_cast<double>(value);
    for (const auto value : x) most = std::max(most, value);
    EXPECT_NEAR(total(x.data(), n), sum, 1e-10);
    EXPECT_EQ(largest(x.data(), n), most);
    const std::vector<float> ones(n, 1);
    EXPECT_NEAR(dot(x.data(), ones.data(), n), sum, 1e-10);
  }
  expect_same_in_all_variants([] {
    const auto x = numbers(1000, 8);
    return std::vector<float>{static_cast<float>(total(x.data(), x.size())),
                              static_cast<float>(dot(x.data(), x.data(), x.size()))};
  });
}

TEST(Random, DependsOnKeyAndPositionAlone) {
  EXPECT_EQ(random_bits(1, 2), random_bits(1, 2));
  EXPECT_NE(random_bits(1, 2), random_bits(2, 2));
  EXPECT_NE(random_key(1, "w"), random_key(1, "v"));
  double mean = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) mean += random_unit(7, i) / 10000;
  EXPECT_NEAR(mean, 0.5, 0.02);
}

}  // namespace
}  // namespace ferry::math
