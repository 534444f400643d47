#pragma once

#include "ferry/base/error.h"

namespace ferry::ops {

// A matrix, row by row, `pitch` elements from a row to the next; or what it is when turned.
struct Matrix {
  const float* values = nullptr;
  std::size_t pitch = 0;
  bool turned = false;
};

// y [m, n] = a [m, k] b [k, n], or that added to y. The pitch is y's.
struct Product {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  bool add = false;
};
Status multiply(const Product& product, const Matrix& a, const Matrix& b, float* y,
                std::size_t pitch);

}  // namespace ferry::ops
