#include <algorithm>
#include <cmath>

#include "ferry/math/elements.h"
#include "ferry/math/reduce.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Softmax, and what is made of it.

namespace ferry::ops {
namespace {

constexpr std::int32_t kNoLabel = -1;

// How many rows are worth a thread of their own.
std::size_t rows_grain(const Rows& rows) {
  return kGrain / 8 / std::max<std::size_t>(1, rows.width);
}

// powers[i] = e ^ (x[i] - the largest x); returns their sum. `most` is the largest.
double softmax_powers(const float* x, float* powers, std::size_t n, float& most) {
  most = math::largest(x, n);
  math::binary(math::Binary::kSub, {x}, {&most, true}, powers, n);
  math::unary(math::Unary::kExp, powers, powers, n);
  return math::total(powers, n);
}

Status run_softmax(const Call& call) {
  const auto rows = rows_of(call.out_shape());
  auto* scratch = FERRY_TRY(call.scratch<float>(threads() * rows.width));
  const auto* x = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats());
  parallel(rows.count, rows_grain(rows), [=](std::size_t begin, std::size_t end, unsigned part) {
    auto* powers = scratch + part * rows.width;
    for (auto row = begin; row < end; ++row) {
      float most = 0;
      const auto sum = softmax_powers(x + row * rows.width, powers, rows.width, most);
      math::scale(powers, static_cast<float>(1 / sum), y + row * rows.width, rows.width);
    }
  });
  return {};
}

Status run_softmax_grad(const Call& call) {
  const auto rows = rows_of(call.out_shape());
  const auto* dy = call.floats(0);
  const auto* y = call.floats(1);
  auto* dx = FERRY_TRY(call.out_floats());
  parallel(rows.count, rows_grain(rows), [=](std::size_t begin, std::size_t end) {
    for (auto row = begin; row < end; ++row) {
      const auto at = row * rows.width;
      const auto flow = static_cast<float>(math::dot(dy + at, y + at, rows.width));
      for (auto i = at; i < at + rows.width; ++i) dx[i] = y[i] * (dy[i] - flow);
    }
  });
  return {};
}

// Labels are 0 to classes - 1, or -1.
Status check_labels(const std::int32_t* labels, const Rows& logits) {
  for (std::size_t row = 0; row < logits.count; ++row)
    if (labels[row] < kNoLabel ||
        (labels[row] >= 0 && static_cast<std::size_t>(labels[row]) >= logits.width))
      return fail(Code::kInvalidArgument, "label {} is {}; there are {} classes, from 0 on", row,
                  labels[row], logits.width);
  return {};
}

Status run_cross_entropy(const Call& call) {
  const auto rows = rows_of(call.shape(0));
  const auto* labels = call.ints(1);
  FERRY_TRY(check_labels(labels, rows));
  auto* scratch = FERRY_TRY(call.scratch<float>(threads() * rows.width));
  const auto* logits = call.floats(0);
  auto* loss = FERRY_TRY(call.out_floats(0));
  auto* slope = FERRY_TRY(call.out_floats(1));
  parallel(rows.count, rows_grain(rows), [=](std::size_t begin, std::size_t end, unsigned part) {
    auto* powers = scratch + part * rows.width;
    for (auto row = begin; row < end; ++row) {
      const auto* x = logits + row * rows.width;
      auto* to = slope + row * rows.width;
      if (labels[row] == kNoLabel) {
        loss[row] = 0;
        std::fill_n(to, rows.width, 0.0F);
        continue;
      }
      float most = 0;
      const auto sum = softmax_powers(x, powers, rows.width, most);
      const auto label = static_cast<std::size_t>(labels[row]);
      loss[row] = static_cast<float>(std::log(sum) - static_cast<double>(x[label] - most));
      math::scale(powers, static_cast<float>(1 / sum), powers, rows.width);
      powers[label] -= 1;
      std::copy_n(powers, rows.width, to);
    }
  });
  return {};
}

Status run_cross_entropy_grad(const Call& call) {
  const auto rows = rows_of(call.out_shape());
  const auto* dloss = call.floats(0);
  const auto* slope = call.floats(1);
  auto* dlogits = FERRY_TRY(call.out_floats());
  parallel(rows.count, rows_grain(rows) * 8, [=](std::size_t begin, std::size_t end) {
    for (auto row = begin; row < end; ++row)
      math::scale(slope + row * rows.width, dloss[row], dlogits + row * rows.width, rows.width);
  });
  return {};
}

Status run_accuracy(const Call& call) {
  const auto rows = rows_of(call.shape(0));
  const auto* labels = call.ints(1);
  FERRY_TRY(check_labels(labels, rows));
  const auto* logits = call.floats(0);
  std::size_t counted = 0;
  std::size_t right = 0;
  for (std::size_t row = 0; row < rows.count; ++row) {
    if (labels[row] == kNoLabel) continue;
    const auto* x = logits + row * rows.width;
    ++counted;
    if (std::max_element(x, x + rows.width) - x == labels[row]) ++right;
  }
  *FERRY_TRY(call.out_floats()) =
      counted == 0 ? 0 : static_cast<float>(right) / static_cast<float>(counted);
  return {};
}

}  // namespace

NamedKernels class_kernels() {
  return {{"Softmax", shaped(run_softmax)},
          {"SoftmaxGrad", shaped(run_softmax_grad)},
          {"SoftmaxCrossEntropy", shaped(run_cross_entropy)},
          {"SoftmaxCrossEntropyGrad", shaped(run_cross_entropy_grad)},
          {"Accuracy", shaped(run_accuracy)}};
}

}  // namespace ferry::ops
