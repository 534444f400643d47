#pragma once

#include <cstddef>

namespace ferry::math {

// Element by element over n elements. The result may be where an operand is; otherwise they do not
// overlap. The same bits on every machine; exp, log, sigmoid and tanh are within a few units of the
// last place.

enum class Unary { kNeg, kExp, kLog, kSqrt, kSquare, kRelu, kSigmoid, kTanh };
void unary(Unary op, const float* x, float* y, std::size_t n);

// kReluGrad: a where b > 0, else 0. kSigmoidGrad: a * b * (1 - b). kTanhGrad: a * (1 - b * b).
enum class Binary { kAdd, kSub, kMul, kDiv, kMaximum, kReluGrad, kSigmoidGrad, kTanhGrad };

// An operand that is the same for all elements, or one for each.
struct Operand {
  const float* values = nullptr;
  bool same = false;
};
void binary(Binary op, Operand a, Operand b, float* y, std::size_t n);

// y = x * factor
void scale(const float* x, float factor, float* y, std::size_t n);

}  // namespace ferry::math
