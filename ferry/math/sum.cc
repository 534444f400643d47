#include "ferry/math/sum.h"

#include "ferry/math/parts_internal.h"

namespace ferry::math {
namespace {

struct StoreSum {
  float* dst;
  float scale;
  template <class Values>
  FERRY_MATH_INLINE void operator()(std::size_t begin, std::size_t count,
                                    const Values& values) const {
    float* to = dst + begin;
    const float by = scale;
    FERRY_MATH_APART
    for (std::size_t i = 0; i < count; ++i) to[i] = values[i] * by;
  }
};

FERRY_MATH_INLINE void sum_loop(const Parts& parts, float* dst, std::size_t n) {
  for_sums(parts, n, StoreSum{dst, parts.scale});
}

}  // namespace

FERRY_MATH_VARIANTS(void, sum, (const Parts& parts, float* dst, std::size_t n), (parts, dst, n))

}  // namespace ferry::math
