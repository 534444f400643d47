#include "ferry/math/convert.h"

#include <bit>
#include <cmath>

#include "ferry/math/variants_internal.h"

namespace ferry::math {
namespace {

using std::bit_cast;
using Bits = std::uint32_t;

// Adding a float whose exponent is that of the result rounds the value at the half's last bit.
FERRY_MATH_INLINE std::uint16_t half_of(float value) {
  const Bits bits = bit_cast<Bits>(value);
  const Bits twice = bits + bits;
  const Bits sign = bits & 0x80000000U;
  const Bits exponent = twice & 0xFF000000U;
  const Bits bias = exponent < 0x71000000U ? 0x71000000U : exponent;
  const float magnitude = (bit_cast<float>(bits ^ sign) * 0x1.0p+112F) * 0x1.0p-110F;
  const Bits rounded = bit_cast<Bits>(bit_cast<float>((bias >> 1) + 0x07800000U) + magnitude);
  const Bits finite = ((rounded >> 13) & 0x7C00U) + (rounded & 0x0FFFU);
  return static_cast<std::uint16_t>((sign >> 16) | (twice > 0xFF000000U ? 0x7E00U : finite));
}

FERRY_MATH_INLINE float float_of_half(std::uint16_t half) {
  const Bits bits = static_cast<Bits>(half) << 16;
  const Bits sign = bits & 0x80000000U;
  const Bits twice = bits + bits;
  const float normal = bit_cast<float>((twice >> 4) + (0xE0U << 23)) * 0x1.0p-112F;
  const float tiny = bit_cast<float>((twice >> 17) | (126U << 23)) - 0.5F;
  return bit_cast<float>(sign | bit_cast<Bits>(twice < (1U << 27) ? tiny : normal));
}

FERRY_MATH_INLINE std::uint16_t brain_of(float value) {
  const Bits bits = bit_cast<Bits>(value);
  const Bits rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Bits nan = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

FERRY_MATH_INLINE void f16_from_f32_loop(const float* src, std::uint16_t* dst, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) dst[i] = half_of(src[i]);
}

FERRY_MATH_INLINE void f32_from_f16_loop(const std::uint16_t* src, float* dst, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) dst[i] = float_of_half(src[i]);
}

FERRY_MATH_INLINE void bf16_from_f32_loop(const float* src, std::uint16_t* dst, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) dst[i] = brain_of(src[i]);
}

FERRY_MATH_INLINE void f32_from_bf16_loop(const std::uint16_t* src, float* dst, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) dst[i] = bit_cast<float>(static_cast<Bits>(src[i]) << 16);
}

}  // namespace

FERRY_MATH_VARIANTS(void, f16_from_f32, (const float* src, std::uint16_t* dst, std::size_t n),
                    (src, dst, n))
FERRY_MATH_VARIANTS(void, f32_from_f16, (const std::uint16_t* src, float* dst, std::size_t n),
                    (src, dst, n))
FERRY_MATH_VARIANTS(void, bf16_from_f32, (const float* src, std::uint16_t* dst, std::size_t n),
                    (src, dst, n))
FERRY_MATH_VARIANTS(void, f32_from_bf16, (const std::uint16_t* src, float* dst, std::size_t n),
                    (src, dst, n))

}  // namespace ferry::math
