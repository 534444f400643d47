#include <algorithm>

#include "ferry/math/elements.h"
#include "ferry/ops/recurrent_internal.h"
#include "ferry/ops/standard_internal.h"

// Long short-term memory. Gates: input, forget, candidate, output.

namespace ferry::ops {
namespace {

// sums = b + x wx + h wh, for all gates.
Status lstm_sums(const Call& call, const CellSizes& sizes, float* sums) {
  const auto* w = call.floats(3);
  const auto gates = sizes.gates;
  repeat_row(call.floats(4), sizes.rows, gates, sums);
  FERRY_TRY(multiply({.m = sizes.rows, .n = gates, .k = sizes.inputs, .add = true},
                     {call.floats(0), sizes.inputs}, {w, gates}, sums, gates));
  return multiply({.m = sizes.rows, .n = gates, .k = sizes.state, .add = true},
                  {call.floats(1), sizes.state}, {w + sizes.state_weights(), gates}, sums, gates);
}

Status run_lstm(const Call& call) {
  const auto sizes = cell_sizes(call.shape(0), call.shape(1), call.shape(3));
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.rows * sizes.gates));
  auto* row_h = FERRY_TRY(call.scratch<float>(sizes.state));
  FERRY_TRY(lstm_sums(call, sizes, sums));
  auto* h = FERRY_TRY(call.out_floats(0));
  auto* c = FERRY_TRY(call.out_floats(1));
  auto* gates = FERRY_TRY(call.out_floats(2));
  for (std::size_t row = 0; row < sizes.rows; ++row) {
    const auto at = row * sizes.state;
    auto* own = sums + row * sizes.gates;
    lstm_row(own, call.floats(2) + at, row_h, c + at, sizes.state);
    std::copy_n(row_h, sizes.state, h + at);
    std::copy_n(own, sizes.gates, gates + row * sizes.gates);
  }
  return {};
}

// dx, dh, dw and db from what flows into the sums.
Status lstm_products(const Call& call, const CellSizes& sizes, const float* sums) {
  const auto* w = call.floats(5);
  const auto gates = sizes.gates;
  const Matrix flow{sums, gates};
  auto* dx = FERRY_TRY(call.out_floats(0));
  FERRY_TRY(multiply({.m = sizes.rows, .n = sizes.inputs, .k = gates}, flow, {w, gates, true}, dx,
                     sizes.inputs));
  auto* dh = FERRY_TRY(call.out_floats(1));
  FERRY_TRY(multiply({.m = sizes.rows, .n = sizes.state, .k = gates}, flow,
                     {w + sizes.state_weights(), gates, true}, dh, sizes.state));
  auto* dw = FERRY_TRY(call.out_floats(3));
  FERRY_TRY(multiply({.m = sizes.inputs, .n = gates, .k = sizes.rows},
                     {call.floats(2), sizes.inputs, true}, flow, dw, gates));
  FERRY_TRY(multiply({.m = sizes.state, .n = gates, .k = sizes.rows},
                     {call.floats(3), sizes.state, true}, flow, dw + sizes.state_weights(), gates));
  return column_sums(call, sums, sizes.rows, gates, FERRY_TRY(call.out_floats(4)));
}

Status run_lstm_grad(const Call& call) {
  const auto sizes = cell_sizes(call.shape(2), call.shape(3), call.shape(5));
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.rows * sizes.gates));
  auto* tops = FERRY_TRY(call.scratch<float>(sizes.state));
  auto* dc = FERRY_TRY(call.out_floats(2));
  for (std::size_t row = 0; row < sizes.rows; ++row) {
    const auto at = row * sizes.state;
    lstm_row_grad({call.floats(0) + at, call.floats(1) + at, call.floats(4) + at,
                   call.floats(6) + at, call.floats(7) + row * sizes.gates},
                  sums + row * sizes.gates, tops, dc + at, sizes.state);
  }
  return lstm_products(call, sizes, sums);
}

}  // namespace

void lstm_row(float* gates, const float* c, float* new_h, float* new_c, std::size_t n) {
  math::unary(math::Unary::kSigmoid, gates, gates, 2 * n);
  math::unary(math::Unary::kTanh, gates + 2 * n, gates + 2 * n, n);
  math::unary(math::Unary::kSigmoid, gates + 3 * n, gates + 3 * n, n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto next = gates[n + i] * c[i] + gates[i] * gates[2 * n + i];
    new_c[i] = next;
    new_h[i] = next;
  }
  math::unary(math::Unary::kTanh, new_h, new_h, n);
  math::binary(math::Binary::kMul, {new_h}, {gates + 3 * n}, new_h, n);
}

void lstm_row_grad(const LstmFlow& in, float* sums, float* tops, float* dc, std::size_t n) {
  math::unary(math::Unary::kTanh, in.new_c, tops, n);
  for (std::size_t j = 0; j < n; ++j) {
    const auto i = in.gates[j];
    const auto f = in.gates[n + j];
    const auto g = in.gates[2 * n + j];
    const auto o = in.gates[3 * n + j];
    const auto top = tops[j];
    const auto flow = in.dc[j] + in.dh[j] * o * (1 - top * top);
    sums[j] = flow * g * i * (1 - i);
    sums[n + j] = flow * in.c[j] * f * (1 - f);
    sums[2 * n + j] = flow * i * (1 - g * g);
    sums[3 * n + j] = in.dh[j] * top * o * (1 - o);
    dc[j] = flow * f;
  }
}

Status state_weights_grad(const SequenceSizes& sizes, const float* first, const float* y,
                          const float* sums, std::size_t columns, float* dw) {
  const auto& cell = sizes.cell;
  const auto later = sizes.steps > 0 ? sizes.all_rows() - cell.rows : 0;
  FERRY_TRY(multiply({.m = cell.state, .n = columns, .k = later}, {y, cell.state, true},
                     {sums + sizes.gates(), cell.gates}, dw, cell.gates));
  if (sizes.steps == 0) return {};
  return multiply({.m = cell.state, .n = columns, .k = cell.rows, .add = true},
                  {first, cell.state, true}, {sums, cell.gates}, dw, cell.gates);
}

NamedKernels recurrent_kernels() {
  auto kernels = gru_kernels();
  for (auto& kernel : sequence_kernels()) kernels.push_back(std::move(kernel));
  kernels.emplace_back("LstmCell", shaped(run_lstm));
  kernels.emplace_back("LstmCellGrad", shaped(run_lstm_grad));
  return kernels;
}

}  // namespace ferry::ops
