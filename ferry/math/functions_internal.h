#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ferry/math/variants_internal.h"

namespace ferry::math {

// Functions without branches or tables, so that loops over them become vector code: the polynomials
// of the Cephes library. Within about two units of the last place; the same bits on every machine.

FERRY_MATH_INLINE float exp_of(float x) {
  constexpr float kHighest = 88.72283F;
  constexpr float kLowest = -87.33654F;
  const float inside = x > kHighest ? kHighest : (x < kLowest ? kLowest : x);
  constexpr float kRounder = 0x1.8p23F;  // adding it rounds to whole numbers
  const float rounded = inside * 1.44269504F + kRounder;
  const float whole = rounded - kRounder;
  const float r = (inside - whole * 0.693359375F) - whole * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float value = (p * (r * r) + r) + 1.0F;
  // In two halves: 2^128 is no float, but the product may be one.
  const auto power = std::bit_cast<std::int32_t>(rounded) - std::bit_cast<std::int32_t>(kRounder);
  const auto half = power >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((power - half + 127) << 23);
  const float finite = value * first * second;
  const float high = x > kHighest ? std::numeric_limits<float>::infinity() : finite;
  const float low = x < kLowest ? 0.0F : high;
  return x != x ? x : low;
}

// Of numbers above the smallest normal one; 0 gives -infinity, those below 0 NaN.
FERRY_MATH_INLINE float log_of(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  // x = m * 2^e with m from sqrt(1/2) to sqrt(2).
  const auto shifted = bits - 0x3F3504F3;
  const auto e = static_cast<float>(shifted >> 23);
  const float m = std::bit_cast<float>((shifted & 0x007FFFFF) + 0x3F3504F3) - 1.0F;
  const float z = m * m;
  float p = 7.0376836292e-2F;
  p = p * m + -1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m + -1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m + -1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m + -2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  float y = (p * m) * z;
  y = y + e * -2.12194440e-4F;
  y = y - 0.5F * z;
  const float value = (m + y) + e * 0.693359375F;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float positive = x < kInfinity ? value : x;
  const float at_zero = x == 0 ? -kInfinity : positive;
  return x < 0 ? std::numeric_limits<float>::quiet_NaN() : at_zero;
}

FERRY_MATH_INLINE float sigmoid_of(float x) { return 1.0F / (1.0F + exp_of(-x)); }

FERRY_MATH_INLINE float tanh_of(float x) {
  const float size = x < 0 ? -x : x;
  const float far = 1.0F - 2.0F / (exp_of(size + size) + 1.0F);
  const float z = x * x;
  float p = -5.70498872745e-3F;
  p = p * z + 2.06390887954e-2F;
  p = p * z + -5.37397155531e-2F;
  p = p * z + 1.33314422036e-1F;
  p = p * z + -3.33332819422e-1F;
  const float near = (p * z) * x + x;
  const float signed_far = x < 0 ? -far : far;
  return size < 0.625F ? near : signed_far;
}

}  // namespace ferry::math
