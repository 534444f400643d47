#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::math {

// Between f32 and the bits of f16 (IEEE half) and bf16, n elements, apart in memory. To the
// nearest, ties to even; what is too large becomes infinite, NaN stays NaN. The same bits on every
// machine.
void f16_from_f32(const float* src, std::uint16_t* dst, std::size_t n);
void f32_from_f16(const std::uint16_t* src, float* dst, std::size_t n);
void bf16_from_f32(const float* src, std::uint16_t* dst, std::size_t n);
void f32_from_bf16(const std::uint16_t* src, float* dst, std::size_t n);

}  // namespace ferry::math
