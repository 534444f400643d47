#pragma once

#include <cstddef>

#include "ferry/math/parts.h"

namespace ferry::math {

// dst = the sum of the parts, n elements. dst may be one of the sources; otherwise they do not
// overlap. The same bits on every machine.
void sum(const Parts& parts, float* dst, std::size_t n);

}  // namespace ferry::math
