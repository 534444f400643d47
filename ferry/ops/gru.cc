#include <algorithm>

#include "ferry/math/elements.h"
#include "ferry/ops/recurrent_internal.h"
#include "ferry/ops/standard_internal.h"

// Gated recurrent unit. Gates: reset, update, candidate.

namespace ferry::ops {
namespace {

Status run_gru(const Call& call) {
  const auto sizes = cell_sizes(call.shape(0), call.shape(1), call.shape(2));
  const auto* w = call.floats(2);
  auto* gates = FERRY_TRY(call.scratch<float>(sizes.rows * sizes.gates));
  auto* reset = FERRY_TRY(call.scratch<float>(sizes.rows * sizes.state));
  repeat_row(call.floats(3), sizes.rows, sizes.gates, gates);
  FERRY_TRY(multiply({.m = sizes.rows, .n = sizes.gates, .k = sizes.inputs, .add = true},
                     {call.floats(0), sizes.inputs}, {w, sizes.gates}, gates, sizes.gates));
  auto* new_h = FERRY_TRY(call.out_floats(0));
  FERRY_TRY(gru_step(sizes, w + sizes.state_weights(), call.floats(1), gates, reset, new_h));
  std::copy_n(gates, sizes.rows * sizes.gates, FERRY_TRY(call.out_floats(1)));
  return {};
}

// What flows into the sums of update and candidate, and by z into the old h.
void gru_rows_grad(const CellSizes& sizes, const GruFlow& in, float* sums, float* dh) {
  const auto n = sizes.state;
  for (std::size_t row = 0; row < sizes.rows; ++row) {
    const auto* flow = in.dh + row * n;
    const auto* h = in.h + row * n;
    const auto* z = in.gates + row * sizes.gates + n;
    const auto* candidate = z + n;
    auto* to = sums + row * sizes.gates;
    for (std::size_t i = 0; i < n; ++i) {
      to[n + i] = flow[i] * (h[i] - candidate[i]) * z[i] * (1 - z[i]);
      to[2 * n + i] = flow[i] * (1 - z[i]) * (1 - candidate[i] * candidate[i]);
      dh[row * n + i] = flow[i] * z[i];
    }
  }
}

// What flows into the sums of reset, from what flows into r * h; and by r into the old h.
void gru_reset_grad(const CellSizes& sizes, const GruFlow& in, const float* flow, float* sums,
                    float* dh) {
  const auto n = sizes.state;
  for (std::size_t row = 0; row < sizes.rows; ++row) {
    const auto* h = in.h + row * n;
    const auto* r = in.gates + row * sizes.gates;
    const auto* from = flow + row * n;
    for (std::size_t i = 0; i < n; ++i) {
      sums[row * sizes.gates + i] = from[i] * h[i] * r[i] * (1 - r[i]);
      dh[row * n + i] += from[i] * r[i];
    }
  }
}

Status gru_weights_grad(const Call& call, const CellSizes& sizes, const float* sums,
                        const float* reset) {
  const auto n = sizes.state;
  const auto gates = sizes.gates;
  auto* dw = FERRY_TRY(call.out_floats(2));
  auto* dwh = dw + sizes.state_weights();
  FERRY_TRY(multiply({.m = sizes.inputs, .n = gates, .k = sizes.rows},
                     {call.floats(1), sizes.inputs, true}, {sums, gates}, dw, gates));
  FERRY_TRY(multiply({.m = n, .n = 2 * n, .k = sizes.rows}, {call.floats(2), n, true},
                     {sums, gates}, dwh, gates));
  FERRY_TRY(multiply({.m = n, .n = n, .k = sizes.rows}, {reset, n, true}, {sums + 2 * n, gates},
                     dwh + 2 * n, gates));
  return column_sums(call, sums, sizes.rows, gates, FERRY_TRY(call.out_floats(3)));
}

Status run_gru_grad(const Call& call) {
  const auto sizes = cell_sizes(call.shape(1), call.shape(2), call.shape(3));
  const auto n = sizes.state;
  const auto gates = sizes.gates;
  const auto* w = call.floats(3);
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.rows * gates));
  auto* dh = FERRY_TRY(call.scratch<float>(sizes.rows * n));
  auto* reset = FERRY_TRY(call.scratch<float>(sizes.rows * n));
  FERRY_TRY(gru_step_grad(sizes, w + sizes.state_weights(),
                          {call.floats(0), call.floats(2), call.floats(4)}, sums, reset, dh));
  std::copy_n(dh, sizes.rows * n, FERRY_TRY(call.out_floats(1)));
  auto* dx = FERRY_TRY(call.out_floats(0));
  FERRY_TRY(multiply({.m = sizes.rows, .n = sizes.inputs, .k = gates}, {sums, gates},
                     {w, gates, true}, dx, sizes.inputs));
  reset_state(sizes, call.floats(4), call.floats(2), reset);
  return gru_weights_grad(call, sizes, sums, reset);
}

}  // namespace

void repeat_row(const float* b, std::size_t rows, std::size_t columns, float* y) {
  for (std::size_t row = 0; row < rows; ++row) std::copy_n(b, columns, y + row * columns);
}

void reset_state(const CellSizes& sizes, const float* gates, const float* h, float* y) {
  for (std::size_t row = 0; row < sizes.rows; ++row)
    math::binary(math::Binary::kMul, {gates + row * sizes.gates}, {h + row * sizes.state},
                 y + row * sizes.state, sizes.state);
}

Status gru_step(const CellSizes& sizes, const float* wh, const float* h, float* gates, float* reset,
                float* new_h) {
  const auto n = sizes.state;
  FERRY_TRY(multiply({.m = sizes.rows, .n = 2 * n, .k = n, .add = true}, {h, n}, {wh, sizes.gates},
                     gates, sizes.gates));
  for (std::size_t row = 0; row < sizes.rows; ++row)
    math::unary(math::Unary::kSigmoid, gates + row * sizes.gates, gates + row * sizes.gates, 2 * n);
  reset_state(sizes, gates, h, reset);
  FERRY_TRY(multiply({.m = sizes.rows, .n = n, .k = n, .add = true}, {reset, n},
                     {wh + 2 * n, sizes.gates}, gates + 2 * n, sizes.gates));
  for (std::size_t row = 0; row < sizes.rows; ++row) {
    const auto* z = gates + row * sizes.gates + n;
    auto* candidate = gates + row * sizes.gates + 2 * n;
    math::unary(math::Unary::kTanh, candidate, candidate, n);
    for (std::size_t i = 0; i < n; ++i)
      new_h[row * n + i] = (1 - z[i]) * candidate[i] + z[i] * h[row * n + i];
  }
  return {};
}

Status gru_step_grad(const CellSizes& sizes, const float* wh, const GruFlow& in, float* sums,
                     float* reset, float* dh) {
  const auto n = sizes.state;
  const auto gates = sizes.gates;
  gru_rows_grad(sizes, in, sums, dh);
  FERRY_TRY(multiply({.m = sizes.rows, .n = n, .k = n}, {sums + 2 * n, gates},
                     {wh + 2 * n, gates, true}, reset, n));
  gru_reset_grad(sizes, in, reset, sums, dh);
  return multiply({.m = sizes.rows, .n = n, .k = 2 * n, .add = true}, {sums, gates},
                  {wh, gates, true}, dh, n);
}

NamedKernels gru_kernels() {
  return {{"GruCell", shaped(run_gru)}, {"GruCellGrad", shaped(run_gru_grad)}};
}

}  // namespace ferry::ops
