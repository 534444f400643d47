#pragma once

#include <cstddef>
#include <span>

namespace ferry::math {

// Several arrays that stand for their sum: element by element from the first to the last, then
// times the scale. There is at least one.
struct Parts {
  std::span<const float* const> sources;
  float scale = 1;
};

// dst = the sum of the parts, n elements. dst may be one of the sources; otherwise they do not
// overlap. The same bits on every machine.
void sum(const Parts& parts, float* dst, std::size_t n);

}  // namespace ferry::math
