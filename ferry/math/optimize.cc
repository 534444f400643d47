#include "ferry/math/optimize.h"

#include <cmath>

#include "ferry/math/parts_internal.h"

namespace ferry::math {
namespace {

struct SgdStep {
  const float* w;
  float* updated;
  float scale;
  float rate;
  template <class Values>
  FERRY_MATH_INLINE void operator()(std::size_t begin, std::size_t count,
                                    const Values& values) const {
    const float* from = w + begin;
    float* to = updated + begin;
    const float times = scale;
    const float by = rate;
    FERRY_MATH_APART
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i] - by * (values[i] * times);
  }
};

struct MomentumStep {
  const float* w;
  float* updated;
  float* velocity;
  float scale;
  Momentum how;
  template <class Values>
  FERRY_MATH_INLINE void operator()(std::size_t begin, std::size_t count,
                                    const Values& values) const {
    const float* from = w + begin;
    float* to = updated + begin;
    float* speed = velocity + begin;
    const float times = scale;
    const Momentum by = how;
    FERRY_MATH_APART
    for (std::size_t i = 0; i < count; ++i) {
      const float now = by.momentum * speed[i] + values[i] * times;
      speed[i] = now;
      to[i] = from[i] - by.rate * now;
    }
  }
};

// What the formula needs besides the arrays, rounded once.
struct AdamFactors {
  float beta1, rest1, beta2, rest2, step, root, epsilon;
};

struct AdamStep {
  const float* w;
  float* updated;
  float* m;
  float* v;
  float scale;
  AdamFactors how;
  template <class Values>
  FERRY_MATH_INLINE void operator()(std::size_t begin, std::size_t count,
                                    const Values& values) const {
    const float* from = w + begin;
    float* to = updated + begin;
    float* first = m + begin;
    float* second = v + begin;
    const float times = scale;
    const AdamFactors by = how;
    FERRY_MATH_APART
    for (std::size_t i = 0; i < count; ++i) {
      const float g = values[i] * times;
      const float mean = by.beta1 * first[i] + by.rest1 * g;
      const float square = by.beta2 * second[i] + by.rest2 * (g * g);
      first[i] = mean;
      second[i] = square;
      to[i] = from[i] - (by.step * mean) / (std::sqrt(square) * by.root + by.epsilon);
    }
  }
};

AdamFactors factors_of(const Adam& how) {
  const auto first = 1 - std::pow(how.beta1, how.t);
  const auto second = 1 - std::pow(how.beta2, how.t);
  return {.beta1 = static_cast<float>(how.beta1),
          .rest1 = static_cast<float>(1 - how.beta1),
          .beta2 = static_cast<float>(how.beta2),
          .rest2 = static_cast<float>(1 - how.beta2),
          .step = static_cast<float>(how.rate / first),
          .root = static_cast<float>(1 / std::sqrt(second)),
          .epsilon = static_cast<float>(how.epsilon)};
}

FERRY_MATH_INLINE void sgd_loop(const float* w, float* updated, const Parts& gradient, float rate,
                                std::size_t n) {
  for_sums(gradient, n, SgdStep{w, updated, gradient.scale, rate});
}

FERRY_MATH_INLINE void momentum_loop(const float* w, float* updated, float* velocity,
                                     const Parts& gradient, const Momentum& how, std::size_t n) {
  for_sums(gradient, n, MomentumStep{w, updated, velocity, gradient.scale, how});
}

FERRY_MATH_INLINE void adam_pass_loop(const float* w, float* updated, float* m, float* v,
                                      const Parts& gradient, const AdamFactors& how,
                                      std::size_t n) {
  for_sums(gradient, n, AdamStep{w, updated, m, v, gradient.scale, how});
}

FERRY_MATH_INLINE void average_loop(const float* old, const float* x, float* updated, float decay,
                                    std::size_t n) {
  const float rest = 1 - decay;
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) updated[i] = decay * old[i] + rest * x[i];
}

}  // namespace

FERRY_MATH_VARIANTS(void, sgd,
                    (const float* w, float* updated, const Parts& gradient, float rate,
                     std::size_t n),
                    (w, updated, gradient, rate, n))

FERRY_MATH_VARIANTS(void, momentum,
                    (const float* w, float* updated, float* velocity, const Parts& gradient,
                     const Momentum& how, std::size_t n),
                    (w, updated, velocity, gradient, how, n))

namespace {
FERRY_MATH_VARIANTS(void, adam_pass,
                    (const float* w, float* updated, float* m, float* v, const Parts& gradient,
                     const AdamFactors& how, std::size_t n),
                    (w, updated, m, v, gradient, how, n))
}  // namespace

void adam(const float* w, float* updated, float* m, float* v, const Parts& gradient,
          const Adam& how, std::size_t n) {
  adam_pass(w, updated, m, v, gradient, factors_of(how), n);
}

FERRY_MATH_VARIANTS(void, average,
                    (const float* old, const float* x, float* updated, float decay, std::size_t n),
                    (old, x, updated, decay, n))

}  // namespace ferry::math
