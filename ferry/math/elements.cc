#include "ferry/math/elements.h"

#include "ferry/math/functions_internal.h"

namespace ferry::math {
namespace {

template <class Function>
FERRY_MATH_INLINE void map(const float* x, float* y, std::size_t n, Function function) {
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) y[i] = function(x[i]);
}

FERRY_MATH_INLINE void unary_loop(Unary op, const float* x, float* y, std::size_t n) {
  switch (op) {
    case Unary::kNeg:
      return map(x, y, n, [](float v) { return -v; });
    case Unary::kExp:
      return map(x, y, n, [](float v) { return exp_of(v); });
    case Unary::kLog:
      return map(x, y, n, [](float v) { return log_of(v); });
    case Unary::kSqrt:
      return map(x, y, n, [](float v) { return std::sqrt(v); });
    case Unary::kSquare:
      return map(x, y, n, [](float v) { return v * v; });
    case Unary::kRelu:
      return map(x, y, n, [](float v) { return v < 0 ? 0.0F : v; });
    case Unary::kSigmoid:
      return map(x, y, n, [](float v) { return sigmoid_of(v); });
    case Unary::kTanh:
      return map(x, y, n, [](float v) { return tanh_of(v); });
  }
}

template <class Function>
FERRY_MATH_INLINE void zip(Operand a, Operand b, float* y, std::size_t n, Function function) {
  const float* left = a.values;
  const float* right = b.values;
  if (n == 0) return;
  const float first = *left;
  const float second = *right;
  if (a.same && b.same) {
    const float value = function(first, second);
    for (std::size_t i = 0; i < n; ++i) y[i] = value;
    return;
  }
  if (b.same) return map(left, y, n, [=](float v) { return function(v, second); });
  if (a.same) return map(right, y, n, [=](float v) { return function(first, v); });
  FERRY_MATH_APART
  for (std::size_t i = 0; i < n; ++i) y[i] = function(left[i], right[i]);
}

FERRY_MATH_INLINE void binary_loop(Binary op, Operand a, Operand b, float* y, std::size_t n) {
  switch (op) {
    case Binary::kAdd:
      return zip(a, b, y, n, [](float p, float q) { return p + q; });
    case Binary::kSub:
      return zip(a, b, y, n, [](float p, float q) { return p - q; });
    case Binary::kMul:
      return zip(a, b, y, n, [](float p, float q) { return p * q; });
    case Binary::kDiv:
      return zip(a, b, y, n, [](float p, float q) { return p / q; });
    case Binary::kMaximum:
      return zip(a, b, y, n, [](float p, float q) { return p < q ? q : p; });
    case Binary::kReluGrad:
      return zip(a, b, y, n, [](float p, float q) { return q > 0 ? p : 0.0F; });
    case Binary::kSigmoidGrad:
      return zip(a, b, y, n, [](float p, float q) { return p * q * (1.0F - q); });
    case Binary::kTanhGrad:
      return zip(a, b, y, n, [](float p, float q) { return p * (1.0F - q * q); });
  }
}

FERRY_MATH_INLINE void scale_loop(const float* x, float factor, float* y, std::size_t n) {
  map(x, y, n, [=](float v) { return v * factor; });
}

}  // namespace

FERRY_MATH_VARIANTS(void, unary, (Unary op, const float* x, float* y, std::size_t n), (op, x, y, n))
FERRY_MATH_VARIANTS(void, binary, (Binary op, Operand a, Operand b, float* y, std::size_t n),
                    (op, a, b, y, n))
FERRY_MATH_VARIANTS(void, scale, (const float* x, float factor, float* y, std::size_t n),
                    (x, factor, y, n))

}  // namespace ferry::math
