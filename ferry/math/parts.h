#pragma once

#include <span>

namespace ferry::math {

// Several arrays that stand for their sum: element by element from the first to the last, then
// times the scale. There is at least one.
struct Parts {
  std::span<const float* const> sources;
  float scale = 1;
};

}  // namespace ferry::math
