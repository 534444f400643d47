#include <algorithm>
#include <cstring>

#include "ferry/math/convert.h"
#include "ferry/math/sum.h"
#include "ferry/ps/server/gradient_sum_internal.h"

namespace ferry::ps {

void widen(tensor::ElementType type, const std::byte* from, float* to, std::uint64_t count) {
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  if (type == tensor::ElementType::kF16) return math::f32_from_f16(bits, to, count);
  math::f32_from_bf16(bits, to, count);
}

void narrow(tensor::ElementType type, const float* from, std::byte* to, std::uint64_t count) {
  auto* bits = reinterpret_cast<std::uint16_t*>(to);
  if (type == tensor::ElementType::kF16) return math::f16_from_f32(from, bits, count);
  math::bf16_from_f32(from, bits, count);
}

void GradientSum::add(float* sum, bool first, const std::byte* gradient, std::uint64_t count) {
  const auto* values = reinterpret_cast<const float*>(gradient);
  if (type_ != tensor::ElementType::kF32) {
    widened_.resize(std::max<std::size_t>(widened_.size(), count));
    widen(type_, gradient, first ? sum : widened_.data(), count);
    if (first) return;
    values = widened_.data();
  } else if (first) {
    std::memcpy(sum, gradient, count * sizeof(float));
    return;
  }
  const float* both[] = {sum, values};
  math::sum({both}, sum, count);
}

}  // namespace ferry::ps
