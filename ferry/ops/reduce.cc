#include "ferry/math/reduce.h"

#include <limits>

#include "ferry/ops/standard_internal.h"
#include "ferry/ops/walk_internal.h"

// Sums, means and maxima. They are gathered in double precision beside the output, which may be in
// another process and is written once.

namespace ferry::ops {
namespace {

enum class Fold { kSum, kMax };

// x in row order, and beside it the place of the result that each element belongs to; results lie
// one after another. `keeps` says which axes are not reduced.
Walk<2> way_to(const tensor::Shape& x, const std::vector<bool>& keeps) {
  const auto steps = steps_of(x);
  Steps to{};
  std::int64_t step = 1;
  for (auto axis = x.rank(); axis-- > 0;) {
    if (!keeps[axis]) continue;
    to[axis] = step;
    step *= x.dim(axis);
  }
  Walk<2> way;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) way.add(x.dim(axis), {steps[axis], to[axis]});
  return way;
}

void fold_row(Fold fold, const float* x, double* to, std::size_t n, bool into_one) {
  if (fold == Fold::kSum) {
    if (into_one)
      *to += math::total(x, n);
    else
      math::add_to(x, to, n);
  } else if (into_one) {
    *to = std::max(*to, static_cast<double>(math::largest(x, n)));
  } else {
    math::raise_to(x, to, n);
  }
}

Status fold_to_output(const Call& call, Fold fold, const std::vector<bool>& keeps, double factor) {
  const auto way = way_to(call.shape(0), keeps);
  auto* gathered = FERRY_TRY(call.scratch<double>(call.size()));
  std::fill_n(gathered, call.size(),
              fold == Fold::kSum ? 0 : -std::numeric_limits<double>::infinity());
  const auto* x = call.floats(0);
  const auto row = [=](const auto& at, std::size_t n, const auto& step) {
    fold_row(fold, x + at[0], gathered + at[1], n, step[1] == 0);
  };
  // Where the outermost axis is kept, threads work on results of their own.
  if (way.depth() == 2 && way.steps(0)[1] != 0)
    walk_parallel(way, row);
  else
    walk(way, row);
  math::store(gathered, factor, FERRY_TRY(call.out_floats()), call.size());
  return {};
}

std::vector<bool> kept_axes(const Call& call, std::size_t rank) {
  const auto axes = call.attributes().get_or<std::vector<std::int64_t>>("axes", {});
  std::vector<bool> keeps(rank, !axes.empty());
  for (const auto axis : axes)
    keeps[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] =
        false;
  return keeps;
}

Status run_sum(const Call& call) {
  return fold_to_output(call, Fold::kSum, kept_axes(call, call.shape(0).rank()), 1);
}

Status run_mean(const Call& call) {
  const auto results = static_cast<double>(call.size());
  const auto factor = results / static_cast<double>(call.shape(0).elements());
  return fold_to_output(call, Fold::kSum, kept_axes(call, call.shape(0).rank()), factor);
}

Status run_max(const Call& call) {
  return fold_to_output(call, Fold::kMax, kept_axes(call, call.shape(0).rank()), 1);
}

Status run_sum_to(const Call& call) {
  const auto& x = call.shape(0);
  const auto& like = call.shape(1);
  if (x == like) {
    call.context.pass(0, call.in(0));
    return {};
  }
  const auto missing = x.rank() - like.rank();
  std::vector<bool> keeps(x.rank());
  for (std::size_t axis = missing; axis < x.rank(); ++axis)
    keeps[axis] = like.dim(axis - missing) == x.dim(axis);
  return fold_to_output(call, Fold::kSum, keeps, 1);
}

Status run_max_grad(const Call& call) {
  const auto way = way_to(call.shape(1), kept_axes(call, call.shape(1).rank()));
  const auto* dy = call.floats(0);
  const auto* x = call.floats(1);
  const auto* y = call.floats(2);
  auto* dx = FERRY_TRY(call.out_floats());
  walk_parallel(way, [=](const auto& at, std::size_t n, const auto& step) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto from = at[0] + static_cast<std::int64_t>(i);
      const auto to = at[1] + static_cast<std::int64_t>(i) * step[1];
      dx[from] = x[from] == y[to] ? dy[to] : 0;
    }
  });
  return {};
}

Status run_arg_max(const Call& call) {
  const auto rows = rows_of(call.shape(0));
  if (rows.width == 0 && rows.count > 0)
    return fail(Code::kInvalidArgument, "{} has rows without a largest element",
                call.shape(0).to_string());
  const auto* x = call.floats(0);
  auto out = FERRY_TRY(call.out());
  const auto y = out.elements<std::int32_t>();
  for (std::size_t row = 0; row < rows.count; ++row) {
    const auto* at = x + row * rows.width;
    y[row] = static_cast<std::int32_t>(std::max_element(at, at + rows.width) - at);
  }
  return {};
}

}  // namespace

NamedKernels reduce_kernels() {
  return {{"Sum", shaped(run_sum)},          {"Mean", shaped(run_mean)},
          {"Max", shaped(run_max)},          {"SumTo", shaped(run_sum_to)},
          {"MaxGrad", shaped(run_max_grad)}, {"ArgMax", shaped(run_arg_max)}};
}

}  // namespace ferry::ops
