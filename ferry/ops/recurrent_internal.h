#pragma once

#include <algorithm>

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

// The same for a sequence of so many steps of a cell. Steps lie one after the other in memory, and
// so all rows of all steps are the rows of one matrix.
struct SequenceSizes {
  std::size_t steps = 0;
  CellSizes cell;

  std::size_t all_rows() const { return steps * cell.rows; }
  std::size_t state() const { return cell.rows * cell.state; }  // numbers in one step
  std::size_t gates() const { return cell.rows * cell.gates; }
};

inline SequenceSizes sequence_sizes(const tensor::Shape& x, const tensor::Shape& h,
                                    const tensor::Shape& w) {
  return {dim(x, 0), {dim(x, 1), dim(x, 2), dim(h, 1), dim(w, 1)}};
}

// What a step of a sequence begins with: what the step before it has left in `all`.
inline const float* state_before(const SequenceSizes& sizes, const float* first, const float* all,
                                 std::size_t step) {
  return step == 0 ? first : all + (step - 1) * sizes.state();
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

// dw [H, columns] = what the states before each step, turned, times what flows into the sums gives:
// the states are y, one step late, and the first one. The pitch is that of sums and dw.
Status state_weights_grad(const SequenceSizes& sizes, const float* first, const float* y,
                          const float* sums, std::size_t columns, float* dw);

// One row of an LSTM: gates from sums, in place, and the new state of n numbers.
void lstm_row(float* gates, const float* c, float* new_h, float* new_c, std::size_t n);
// One row back: what flows into the sums of the gates, and into the old c. `tops` is scratch.
struct LstmFlow {
  const float* dh;
  const float* dc;
  const float* c;
  const float* new_c;
  const float* gates;
};
void lstm_row_grad(const LstmFlow& in, float* sums, float* tops, float* dc, std::size_t n);

// y = b in every row, which sums are added to.
void repeat_row(const float* b, std::size_t rows, std::size_t columns, float* y);
// y[row] = r[row] * h[row], where r is the first third of a GRU's gates.
void reset_state(const CellSizes& sizes, const float* gates, const float* h, float* y);
// One step of a GRU: gates from x Wx + b, in place, and the new state. `wh` are the weights for the
// state, and `reset` is scratch of a state's size.
Status gru_step(const CellSizes& sizes, const float* wh, const float* h, float* gates, float* reset,
                float* new_h);
// One step back: what flows into the sums of the gates, and into the old h.
struct GruFlow {
  const float* dh;
  const float* h;
  const float* gates;
};
Status gru_step_grad(const CellSizes& sizes, const float* wh, const GruFlow& in, float* sums,
                     float* reset, float* dh);

}  // namespace ferry::ops
