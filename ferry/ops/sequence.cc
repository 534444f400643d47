#include <algorithm>
#include <utility>

#include "ferry/math/elements.h"
#include "ferry/ops/recurrent_internal.h"
#include "ferry/ops/standard_internal.h"

// Recurrent cells over whole sequences. What does not depend on the step before is one product for
// all steps; only the states are multiplied step by step.

namespace ferry::ops {
namespace {

// sums = b + x wx for all steps.
Status input_sums(const SequenceSizes& sizes, const float* x, const float* w, const float* b,
                  float* sums) {
  const auto& cell = sizes.cell;
  repeat_row(b, sizes.all_rows(), cell.gates, sums);
  return multiply({.m = sizes.all_rows(), .n = cell.gates, .k = cell.inputs, .add = true},
                  {x, cell.inputs}, {w, cell.gates}, sums, cell.gates);
}

// dx and the part of dw that is for x, from what flows into the sums.
Status input_grads(const SequenceSizes& sizes, const float* x, const float* w, const float* sums,
                   float* dx, float* dw) {
  const auto& cell = sizes.cell;
  const Matrix flow{sums, cell.gates};
  FERRY_TRY(multiply({.m = sizes.all_rows(), .n = cell.inputs, .k = cell.gates}, flow,
                     {w, cell.gates, true}, dx, cell.inputs));
  return multiply({.m = cell.inputs, .n = cell.gates, .k = sizes.all_rows()},
                  {x, cell.inputs, true}, flow, dw, cell.gates);
}

Status run_lstm_steps(const Call& call) {
  const auto sizes = sequence_sizes(call.shape(0), call.shape(1), call.shape(3));
  const auto& cell = sizes.cell;
  const auto* wh = call.floats(3) + cell.state_weights();
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.all_rows() * cell.gates));
  auto* row_h = FERRY_TRY(call.scratch<float>(cell.state));
  auto* y = FERRY_TRY(call.out_floats(0));
  auto* c = FERRY_TRY(call.out_floats(1));
  FERRY_TRY(input_sums(sizes, call.floats(0), call.floats(3), call.floats(4), sums));
  for (std::size_t step = 0; step < sizes.steps; ++step) {
    auto* own = sums + step * sizes.gates();
    FERRY_TRY(multiply({.m = cell.rows, .n = cell.gates, .k = cell.state, .add = true},
                       {state_before(sizes, call.floats(1), y, step), cell.state}, {wh, cell.gates},
                       own, cell.gates));
    const auto* old_c = state_before(sizes, call.floats(2), c, step);
    for (std::size_t row = 0; row < cell.rows; ++row) {
      const auto at = step * sizes.state() + row * cell.state;
      lstm_row(own + row * cell.gates, old_c + row * cell.state, row_h, c + at, cell.state);
      std::copy_n(row_h, cell.state, y + at);
    }
  }
  std::copy_n(sums, sizes.all_rows() * cell.gates, FERRY_TRY(call.out_floats(2)));
  return {};
}

// What flows into the sums of the gates, from the last step to the first. dh and dc are what flows
// into the first state at the end; `others` is scratch of three states' size.
Status lstm_flows(const Call& call, const SequenceSizes& sizes, float* sums, float* dh, float*& dc,
                  float* others) {
  const auto& cell = sizes.cell;
  const auto* wh = call.floats(4) + cell.state_weights();
  auto* before = others;
  auto* flow = others + sizes.state();
  auto* tops = flow + sizes.state();
  for (auto step = sizes.steps; step-- > 0;) {
    const auto at = step * sizes.state();
    math::binary(math::Binary::kAdd, {call.floats(0) + at}, {dh}, flow, sizes.state());
    const auto* old_c = state_before(sizes, call.floats(3), call.floats(6), step);
    auto* own = sums + step * sizes.gates();
    for (std::size_t row = 0; row < cell.rows; ++row) {
      const auto in = row * cell.state;
      lstm_row_grad({flow + in, dc + in, old_c + in, call.floats(6) + at + in,
                     call.floats(7) + step * sizes.gates() + row * cell.gates},
                    own + row * cell.gates, tops, before + in, cell.state);
    }
    std::swap(dc, before);
    FERRY_TRY(multiply({.m = cell.rows, .n = cell.state, .k = cell.gates}, {own, cell.gates},
                       {wh, cell.gates, true}, dh, cell.state));
  }
  return {};
}

Status run_lstm_steps_grad(const Call& call) {
  const auto sizes = sequence_sizes(call.shape(1), call.shape(2), call.shape(4));
  const auto& cell = sizes.cell;
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.all_rows() * cell.gates));
  auto* dh = FERRY_TRY(call.scratch<float>(sizes.state()));
  auto* dc = FERRY_TRY(call.scratch<float>(sizes.state()));
  auto* others = FERRY_TRY(call.scratch<float>(3 * sizes.state()));
  std::fill_n(dh, sizes.state(), 0.0F);
  std::fill_n(dc, sizes.state(), 0.0F);
  FERRY_TRY(lstm_flows(call, sizes, sums, dh, dc, others));
  std::copy_n(dh, sizes.state(), FERRY_TRY(call.out_floats(1)));
  std::copy_n(dc, sizes.state(), FERRY_TRY(call.out_floats(2)));
  auto* dx = FERRY_TRY(call.out_floats(0));
  auto* dw = FERRY_TRY(call.out_floats(3));
  FERRY_TRY(input_grads(sizes, call.floats(1), call.floats(4), sums, dx, dw));
  FERRY_TRY(state_weights_grad(sizes, call.floats(2), call.floats(5), sums, cell.gates,
                               dw + cell.state_weights()));
  return column_sums(call, sums, sizes.all_rows(), cell.gates, FERRY_TRY(call.out_floats(4)));
}

Status run_gru_steps(const Call& call) {
  const auto sizes = sequence_sizes(call.shape(0), call.shape(1), call.shape(2));
  const auto& cell = sizes.cell;
  const auto* wh = call.floats(2) + cell.state_weights();
  auto* gates = FERRY_TRY(call.scratch<float>(sizes.all_rows() * cell.gates));
  auto* reset = FERRY_TRY(call.scratch<float>(sizes.state()));
  auto* y = FERRY_TRY(call.out_floats(0));
  FERRY_TRY(input_sums(sizes, call.floats(0), call.floats(2), call.floats(3), gates));
  for (std::size_t step = 0; step < sizes.steps; ++step)
    FERRY_TRY(gru_step(cell, wh, state_before(sizes, call.floats(1), y, step),
                       gates + step * sizes.gates(), reset, y + step * sizes.state()));
  std::copy_n(gates, sizes.all_rows() * cell.gates, FERRY_TRY(call.out_floats(1)));
  return {};
}

// What flows into the sums of the gates, from the last step to the first. dh is what flows into the
// first state at the end; `resets` gets r * h of every step, and `flow` is scratch.
Status gru_flows(const Call& call, const SequenceSizes& sizes, float* sums, float* dh,
                 float* resets, float* flow) {
  const auto& cell = sizes.cell;
  const auto* wh = call.floats(3) + cell.state_weights();
  for (auto step = sizes.steps; step-- > 0;) {
    const auto at = step * sizes.state();
    const auto* gates = call.floats(5) + step * sizes.gates();
    const auto* h = state_before(sizes, call.floats(2), call.floats(4), step);
    math::binary(math::Binary::kAdd, {call.floats(0) + at}, {dh}, flow, sizes.state());
    FERRY_TRY(
        gru_step_grad(cell, wh, {flow, h, gates}, sums + step * sizes.gates(), resets + at, dh));
    reset_state(cell, gates, h, resets + at);
  }
  return {};
}

Status run_gru_steps_grad(const Call& call) {
  const auto sizes = sequence_sizes(call.shape(1), call.shape(2), call.shape(3));
  const auto& cell = sizes.cell;
  const auto n = cell.state;
  auto* sums = FERRY_TRY(call.scratch<float>(sizes.all_rows() * cell.gates));
  auto* resets = FERRY_TRY(call.scratch<float>(sizes.all_rows() * n));
  auto* dh = FERRY_TRY(call.scratch<float>(sizes.state()));
  auto* flow = FERRY_TRY(call.scratch<float>(sizes.state()));
  std::fill_n(dh, sizes.state(), 0.0F);
  FERRY_TRY(gru_flows(call, sizes, sums, dh, resets, flow));
  std::copy_n(dh, sizes.state(), FERRY_TRY(call.out_floats(1)));
  auto* dx = FERRY_TRY(call.out_floats(0));
  auto* dw = FERRY_TRY(call.out_floats(2));
  auto* dwh = dw + cell.state_weights();
  FERRY_TRY(input_grads(sizes, call.floats(1), call.floats(3), sums, dx, dw));
  FERRY_TRY(state_weights_grad(sizes, call.floats(2), call.floats(4), sums, 2 * n, dwh));
  FERRY_TRY(multiply({.m = n, .n = n, .k = sizes.all_rows()}, {resets, n, true},
                     {sums + 2 * n, cell.gates}, dwh + 2 * n, cell.gates));
  return column_sums(call, sums, sizes.all_rows(), cell.gates, FERRY_TRY(call.out_floats(3)));
}

}  // namespace

NamedKernels sequence_kernels() {
  return {{"Lstm", shaped(run_lstm_steps)},
          {"LstmGrad", shaped(run_lstm_steps_grad)},
          {"Gru", shaped(run_gru_steps)},
          {"GruGrad", shaped(run_gru_steps_grad)}};
}

}  // namespace ferry::ops
