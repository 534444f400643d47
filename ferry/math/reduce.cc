#include "ferry/math/reduce.h"

#include <array>
#include <limits>

#include "ferry/math/variants_internal.h"

namespace ferry::math {
namespace {

// So many sums are kept side by side, for vectors to add to, and added up at the end.
constexpr std::size_t kLanes = 16;

FERRY_MATH_INLINE double in_order(const std::array<double, kLanes>& lanes) {
  double sum = 0;
  for (const auto lane : lanes) sum += lane;
  return sum;
}

FERRY_MATH_INLINE double total_loop(const float* x, std::size_t n) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(x[i + lane]);
  double sum = in_order(lanes);
  for (; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

FERRY_MATH_INLINE double dot_loop(const float* a, const float* b, std::size_t n) {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  double sum = in_order(lanes);
  for (; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

FERRY_MATH_INLINE float largest_loop(const float* x, std::size_t n) {
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = lanes[lane] < x[i + lane] ? x[i + lane] : lanes[lane];
  float most = lanes[0];
  for (const auto lane : lanes) most = most < lane ? lane : most;
  for (; i < n; ++i) most = most < x[i] ? x[i] : most;
  return most;
}

FERRY_MATH_INLINE void add_to_loop(const float* x, double* sums, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]);
}

FERRY_MATH_INLINE void raise_to_loop(const float* x, double* most, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(x[i]);
    most[i] = most[i] < value ? value : most[i];
  }
}

FERRY_MATH_INLINE void store_loop(const double* sums, double factor, float* y, std::size_t n) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i] * factor);
}

}  // namespace

FERRY_MATH_VARIANTS(double, total, (const float* x, std::size_t n), (x, n))
FERRY_MATH_VARIANTS(double, dot, (const float* a, const float* b, std::size_t n), (a, b, n))
FERRY_MATH_VARIANTS(float, largest, (const float* x, std::size_t n), (x, n))
FERRY_MATH_VARIANTS(void, add_to, (const float* x, double* sums, std::size_t n), (x, sums, n))
FERRY_MATH_VARIANTS(void, raise_to, (const float* x, double* most, std::size_t n), (x, most, n))
FERRY_MATH_VARIANTS(void, store, (const double* sums, double factor, float* y, std::size_t n),
                    (sums, factor, y, n))

}  // namespace ferry::math
