#include <cstring>

#include "ferry/math/optimize.h"
#include "ferry/ops/rows_internal.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/threads_internal.h"

// Updates of variables. The new value of the first goes to output 0, which is the old one's memory
// or another version; what else is updated, is updated where it is.

namespace ferry::ops {
namespace {

// A variable that is updated in place.
float* variable_at(const Call& call, std::size_t input) {
  return reinterpret_cast<float*>(call.in(input).data());
}

// Inputs from `first` on are gradients of the variable.
struct GradientSlices {
  std::vector<const float*> sources;
  float scale;

  GradientSlices(const Call& call, std::size_t first)
      : scale(static_cast<float>(call.attributes().get_or<double>("scale", 1))) {
    for (auto input = first; input < call.context.inputs(); ++input)
      sources.push_back(call.floats(input));
  }
  // Calls use(gradient, begin, count) for slices, in parallel.
  template <class Use>
  void each(std::size_t n, Use use) const {
    parallel(n, kGrain, [&](std::size_t begin, std::size_t end) {
      auto slice = sources;
      for (auto& source : slice) source += begin;
      use(math::Parts{slice, scale}, begin, end - begin);
    });
  }
};

Status run_assign(const Call& call) {
  const auto out = FERRY_TRY(call.out());
  if (!out.bytes().empty()) std::memmove(out.data(), call.in(1).data(), out.bytes().size());
  return {};
}

Status run_sgd(const Call& call) {
  const auto rate = *call.floats(1);
  const auto* w = call.floats(0);
  auto* updated = FERRY_TRY(call.out_floats());
  GradientSlices(call, 2).each(call.size(), [=](const auto& gradient, auto begin, auto count) {
    math::sgd(w + begin, updated + begin, gradient, rate, count);
  });
  return {};
}

Status run_momentum(const Call& call) {
  const math::Momentum how{
      .rate = *call.floats(2),
      .momentum = static_cast<float>(call.attributes().get_or<double>("momentum", 0))};
  const auto* w = call.floats(0);
  auto* velocity = variable_at(call, 1);
  auto* updated = FERRY_TRY(call.out_floats());
  GradientSlices(call, 3).each(call.size(), [=](const auto& gradient, auto begin, auto count) {
    math::momentum(w + begin, updated + begin, velocity + begin, gradient, how, count);
  });
  return {};
}

Status run_adam(const Call& call) {
  auto* t = variable_at(call, 3);
  const math::Adam how{.rate = static_cast<double>(*call.floats(4)),
                       .beta1 = call.attributes().get_or<double>("beta1", 0.9),
                       .beta2 = call.attributes().get_or<double>("beta2", 0.999),
                       .epsilon = call.attributes().get_or<double>("epsilon", 1e-8),
                       .t = static_cast<double>(*t) + 1};
  const auto* w = call.floats(0);
  auto* m = variable_at(call, 1);
  auto* v = variable_at(call, 2);
  auto* updated = FERRY_TRY(call.out_floats());
  *t += 1;
  GradientSlices(call, 5).each(call.size(), [=](const auto& gradient, auto begin, auto count) {
    math::adam(w + begin, updated + begin, m + begin, v + begin, gradient, how, count);
  });
  return {};
}

// All rows of all gradients, by id, those of one id from the first gradient to the last.
Result<std::vector<SparseRow>> rows_by_id(const Call& call) {
  std::vector<SparseRow> rows;
  const auto width = dim(call.out_shape(), 1);
  for (std::size_t input = 2; input < call.context.inputs(); input += 2) {
    const std::span ids(call.ints(input + 1), count_of(call.shape(input + 1)));
    FERRY_TRY(check_ids(ids, call.out_shape().dim(0)));
    add_rows(rows, ids, call.floats(input), width);
  }
  sort_rows(rows);
  return rows;
}

// Rows without a gradient stay where they are, or are copied to another version.
Status run_sgd_sparse(const Call& call) {
  const auto rows = FERRY_TRY(rows_by_id(call));
  const auto width = dim(call.out_shape(), 1);
  const auto scale = static_cast<float>(call.attributes().get_or<double>("scale", 1));
  const auto rate = *call.floats(1);
  const auto* w = call.floats(0);
  auto* updated = FERRY_TRY(call.out_floats());
  std::size_t next = 0;
  const auto keep_until = [&](std::size_t row) {
    if (updated != w) std::copy(w + next * width, w + row * width, updated + next * width);
  };
  std::vector<const float*> sources;
  for (std::size_t at = 0; at < rows.size();) {
    const auto end = end_of_id(rows, at);
    const auto id = static_cast<std::size_t>(rows[at].id);
    keep_until(id);
    sources.clear();
    for (; at < end; ++at) sources.push_back(rows[at].values);
    math::sgd(w + id * width, updated + id * width, {sources, scale}, rate, width);
    next = id + 1;
  }
  keep_until(dim(call.out_shape(), 0));
  return {};
}

Status run_update_average(const Call& call) {
  const auto decay = static_cast<float>(call.attributes().get_or<double>("decay", 0));
  const auto* old = call.floats(0);
  const auto* x = call.floats(1);
  auto* updated = FERRY_TRY(call.out_floats());
  parallel(call.size(), kGrain, [=](std::size_t begin, std::size_t end) {
    math::average(old + begin, x + begin, updated + begin, decay, end - begin);
  });
  return {};
}

}  // namespace

NamedKernels update_kernels() {
  return {{"Assign", shaped(run_assign)},
          {"ApplySgd", shaped(run_sgd)},
          {"ApplyMomentum", shaped(run_momentum)},
          {"ApplyAdam", shaped(run_adam)},
          {"ApplySgdSparse", shaped(run_sgd_sparse)},
          {"UpdateAverage", shaped(run_update_average)}};
}

}  // namespace ferry::ops
