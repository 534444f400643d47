#pragma once

#include "ferry/math/reduce.h"
#include "ferry/ops/matmul_internal.h"
#include "ferry/ops/shaped_internal.h"

namespace ferry::ops {

// The sizes of a recurrent cell: `rows` of `inputs` numbers, a state of `state` numbers each, and
// `gates` columns. The weights for the inputs come before those for the state.
struct CellSizes {
  std::size_t rows = 0;
  std::size_t inputs = 0;
  std::size_t state = 0;
  std::size_t gates = 0;

  std::size_t state_weights() const { return inputs * gates; }
};

inline CellSizes cell_sizes(const tensor::Shape& x, const tensor::Shape& h,
                            const tensor::Shape& w) {
  return {dim(x, 0), dim(x, 1), dim(h, 1), dim(w, 1)};
}

// sums[c] = the sum of column c, to y.
inline Status column_sums(const Call& call, const float* values, std::size_t rows,
                          std::size_t columns, float* y) {
  auto* sums = FERRY_TRY(call.scratch<double>(columns));
  std::fill_n(sums, columns, 0.0);
  for (std::size_t row = 0; row < rows; ++row) math::add_to(values + row * columns, sums, columns);
  math::store(sums, 1, y, columns);
  return {};
}

}  // namespace ferry::ops
