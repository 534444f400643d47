#pragma once

#include <algorithm>
#include <array>

#include "ferry/math/parts.h"
#include "ferry/math/variants_internal.h"

namespace ferry::math {

// Elements of a few arrays, added as they are read.
template <std::size_t kCount>
class AddedUp {
 public:
  explicit AddedUp(const Parts& parts) { std::copy_n(parts.sources.data(), kCount, from_.data()); }
  FERRY_MATH_INLINE float operator[](std::size_t i) const {
    float sum = from_[0][i];
    for (std::size_t part = 1; part < kCount; ++part) sum = sum + from_[part][i];
    return sum;
  }

 private:
  std::array<const float*, kCount> from_;
};

// Of more arrays, so many elements are summed before they are used: they stay in the first-level
// cache.
constexpr std::size_t kBlock = 1024;

template <class Use>
FERRY_MATH_INLINE void for_blocks(const Parts& parts, std::size_t n, Use use) {
  alignas(64) std::array<float, kBlock> values;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const auto count = std::min(kBlock, n - begin);
    std::copy_n(parts.sources[0] + begin, count, values.data());
    for (std::size_t part = 1; part < parts.sources.size(); ++part) {
      const float* more = parts.sources[part] + begin;
      float* to = values.data();
      FERRY_MATH_APART
      for (std::size_t i = 0; i < count; ++i) to[i] = to[i] + more[i];
    }
    use(begin, count, static_cast<const float*>(values.data()));
  }
}

// Calls use(begin, count, values) for stretches of the array, where values[i] is the sum of the
// sources' elements begin + i, not yet scaled. An element of all sources is read before it is used.
template <class Use>
FERRY_MATH_INLINE void for_sums(const Parts& parts, std::size_t n, Use use) {
  switch (parts.sources.size()) {
    case 1:
      return use(0, n, parts.sources[0]);
    case 2:
      return use(0, n, AddedUp<2>(parts));
    case 3:
      return use(0, n, AddedUp<3>(parts));
    case 4:
      return use(0, n, AddedUp<4>(parts));
    default:
      return for_blocks(parts, n, use);
  }
}

}  // namespace ferry::math
