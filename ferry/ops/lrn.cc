#include "ferry/math/elements.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Local response normalisation: y = x * b ^ -beta, where b = bias + alpha / size * (sum of the
// squares of the channels around). The window of a channel has size / 2 channels before it.

namespace ferry::ops {
namespace {

// One pixel: a row of channels.
struct LrnRow {
  std::int64_t size;
  float share;  // alpha / size
  float beta;
  float bias;
  std::int64_t width;

  explicit LrnRow(const Call& call)
      : size(call.attributes().get_or<std::int64_t>("size", 1)),
        share(static_cast<float>(call.attributes().get_or<double>("alpha", 0) /
                                 static_cast<double>(size))),
        beta(static_cast<float>(call.attributes().get_or<double>("beta", 0))),
        bias(static_cast<float>(call.attributes().get_or<double>("bias", 1))),
        width(static_cast<std::int64_t>(rows_of(call.out_shape()).width)) {}

  // sums[i] = the sum of values[i - before .. i + size - 1 - before], as far as they exist.
  void window_sums(const float* values, std::int64_t before, float* sums) const {
    std::fill_n(sums, width, 0.0F);
    for (auto shift = -before; shift < size - before; ++shift) {
      const auto end = std::min(width, width - shift);
      for (auto i = std::max<std::int64_t>(0, -shift); i < end; ++i) sums[i] += values[i + shift];
    }
  }
  // base = b; power = b ^ -beta. `squares` is for its own use.
  void powers(const float* x, float* base, float* power, float* squares) const {
    const auto n = static_cast<std::size_t>(width);
    math::unary(math::Unary::kSquare, x, squares, n);
    window_sums(squares, size / 2, base);
    for (std::int64_t i = 0; i < width; ++i) base[i] = bias + share * base[i];
    math::unary(math::Unary::kLog, base, power, n);
    math::scale(power, -beta, power, n);
    math::unary(math::Unary::kExp, power, power, n);
  }
};

Status run_lrn(const Call& call) {
  const LrnRow row(call);
  const auto rows = rows_of(call.out_shape());
  auto* scratch = FERRY_TRY(call.scratch<float>(threads() * 3 * rows.width));
  auto* y = FERRY_TRY(call.out_floats());
  const auto* x = call.floats(0);
  const auto grain = kGrain / 8 / std::max<std::size_t>(1, rows.width);
  parallel(rows.count, grain, [&](std::size_t begin, std::size_t end, unsigned part) {
    auto* base = scratch + part * 3 * rows.width;
    auto* power = base + rows.width;
    for (auto at = begin * rows.width; at < end * rows.width; at += rows.width) {
      row.powers(x + at, base, power, power + rows.width);
      math::binary(math::Binary::kMul, {x + at}, {power}, y + at, rows.width);
    }
  });
  return {};
}

// dx_i = dy_i * p_i - 2 * beta * share * x_i * (the sum of dy_j * x_j * p_j / b_j over the j whose
// windows have i in them).
Status run_lrn_grad(const Call& call) {
  const LrnRow row(call);
  const auto rows = rows_of(call.out_shape());
  auto* scratch = FERRY_TRY(call.scratch<float>(threads() * 3 * rows.width));
  auto* dx = FERRY_TRY(call.out_floats());
  const auto* dy = call.floats(0);
  const auto* x = call.floats(1);
  const auto factor = 2 * row.beta * row.share;
  const auto grain = kGrain / 8 / std::max<std::size_t>(1, rows.width);
  parallel(rows.count, grain, [&](std::size_t begin, std::size_t end, unsigned part) {
    auto* base = scratch + part * 3 * rows.width;
    auto* power = base + rows.width;
    auto* sums = power + rows.width;
    for (auto at = begin * rows.width; at < end * rows.width; at += rows.width) {
      row.powers(x + at, base, power, sums);
      for (std::size_t i = 0; i < rows.width; ++i)
        base[i] = dy[at + i] * x[at + i] * power[i] / base[i];
      row.window_sums(base, row.size - 1 - row.size / 2, sums);
      for (std::size_t i = 0; i < rows.width; ++i)
        dx[at + i] = dy[at + i] * power[i] - factor * x[at + i] * sums[i];
    }
  });
  return {};
}

}  // namespace

NamedKernels lrn_kernels() { return {{"Lrn", shaped(run_lrn)}, {"LrnGrad", shaped(run_lrn_grad)}}; }

}  // namespace ferry::ops
