#pragma once

#include "ferry/math/sum.h"

namespace ferry::math {

// One step of an optimizer over n weights, in one pass over memory. The new weights go to
// `updated`, which is where the old ones are or does not overlap them; what else the optimizer
// remembers is updated in place. g is the sum of the gradient's parts. The same bits on every
// machine.

// updated = w - rate * g
void sgd(const float* w, float* updated, const Parts& gradient, float rate, std::size_t n);

// velocity = momentum * velocity + g; updated = w - rate * velocity
struct Momentum {
  float rate = 0;
  float momentum = 0;
};
void momentum(const float* w, float* updated, float* velocity, const Parts& gradient,
              const Momentum& how, std::size_t n);

// m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g * g;
// updated = w - rate * (m / (1 - beta1 ^ t)) / (sqrt(v / (1 - beta2 ^ t)) + epsilon)
struct Adam {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double t = 1;  // this step's number, from 1
};
void adam(const float* w, float* updated, float* m, float* v, const Parts& gradient,
          const Adam& how, std::size_t n);

// average = decay * average + (1 - decay) * x, to `updated`
void average(const float* old, const float* x, float* updated, float decay, std::size_t n);

}  // namespace ferry::math
