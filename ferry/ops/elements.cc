#include "ferry/math/elements.h"

#include "ferry/math/random.h"
#include "ferry/math/sum.h"
#include "ferry/ops/standard_internal.h"
#include "ferry/ops/walk_internal.h"

// Operators that work element by element, with broadcasting.

namespace ferry::ops {
namespace {

template <math::Unary kOp>
Status run_unary(const Call& call) {
  const auto* x = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats());
  parallel(call.size(), kGrain, [=](std::size_t begin, std::size_t end) {
    math::unary(kOp, x + begin, y + begin, end - begin);
  });
  return {};
}

template <math::Binary kOp>
Status run_binary(const Call& call) {
  const auto& shape = call.out_shape();
  const auto steps = steps_of(shape);
  const auto a_steps = broadcast_steps(call.shape(0), shape.rank());
  const auto b_steps = broadcast_steps(call.shape(1), shape.rank());
  Walk<3> way;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    way.add(shape.dim(axis), {steps[axis], a_steps[axis], b_steps[axis]});
  const auto* a = call.floats(0);
  const auto* b = call.floats(1);
  auto* y = FERRY_TRY(call.out_floats());
  walk_parallel(way, [=](const auto& at, std::size_t n, const auto& step) {
    math::binary(kOp, {a + at[1], step[1] == 0}, {b + at[2], step[2] == 0}, y + at[0], n);
  });
  return {};
}

Status run_add_n(const Call& call) {
  std::vector<const float*> sources;
  for (std::size_t i = 0; i < call.context.inputs(); ++i) sources.push_back(call.floats(i));
  auto* y = FERRY_TRY(call.out_floats());
  parallel(call.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    auto slice = sources;
    for (auto& source : slice) source += begin;
    math::sum({slice, 1}, y + begin, end - begin);
  });
  return {};
}

Status run_scale(const Call& call) {
  const auto factor = static_cast<float>(call.attributes().get_or<double>("factor", 1));
  const auto* x = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats());
  parallel(call.size(), kGrain, [=](std::size_t begin, std::size_t end) {
    math::scale(x + begin, factor, y + begin, end - begin);
  });
  return {};
}

Status run_broadcast_to(const Call& call) {
  const auto& shape = call.out_shape();
  const auto steps = steps_of(shape);
  const auto x_steps = broadcast_steps(call.shape(0), shape.rank());
  Walk<2> way;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    way.add(shape.dim(axis), {steps[axis], x_steps[axis]});
  const auto* x = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats());
  walk_parallel(way, [=](const auto& at, std::size_t n, const auto& step) {
    if (step[1] == 0)
      std::fill_n(y + at[0], n, x[at[1]]);
    else
      std::copy_n(x + at[1], n, y + at[0]);
  });
  return {};
}

// The mask depends on the seed, the step and the element's position alone.
Status run_dropout(const Call& call) {
  const auto rate = call.attributes().get_or<double>("rate", 0);
  const auto seed = static_cast<std::uint64_t>(call.attributes().get_or<std::int64_t>("seed", 0));
  const auto key = math::random_bits(seed, call.context.step());
  const auto keep = static_cast<float>(1 / (1 - rate));
  const auto* x = call.floats(0);
  auto* y = FERRY_TRY(call.out_floats(0));
  auto* mask = FERRY_TRY(call.out_floats(1));
  parallel(call.size(), kGrain, [=](std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto kept = math::random_unit(key, i) < rate ? 0.0F : keep;
      y[i] = x[i] * kept;
      mask[i] = kept;
    }
  });
  return {};
}

}  // namespace

NamedKernels element_kernels() {
  using math::Binary;
  using math::Unary;
  return {{"Add", shaped(run_binary<Binary::kAdd>)},
          {"Sub", shaped(run_binary<Binary::kSub>)},
          {"Mul", shaped(run_binary<Binary::kMul>)},
          {"Div", shaped(run_binary<Binary::kDiv>)},
          {"Maximum", shaped(run_binary<Binary::kMaximum>)},
          {"ReluGrad", shaped(run_binary<Binary::kReluGrad>)},
          {"SigmoidGrad", shaped(run_binary<Binary::kSigmoidGrad>)},
          {"TanhGrad", shaped(run_binary<Binary::kTanhGrad>)},
          {"Neg", shaped(run_unary<Unary::kNeg>)},
          {"Exp", shaped(run_unary<Unary::kExp>)},
          {"Log", shaped(run_unary<Unary::kLog>)},
          {"Sqrt", shaped(run_unary<Unary::kSqrt>)},
          {"Square", shaped(run_unary<Unary::kSquare>)},
          {"Relu", shaped(run_unary<Unary::kRelu>)},
          {"Sigmoid", shaped(run_unary<Unary::kSigmoid>)},
          {"Tanh", shaped(run_unary<Unary::kTanh>)},
          {"AddN", shaped(run_add_n)},
          {"Scale", shaped(run_scale)},
          {"BroadcastTo", shaped(run_broadcast_to)},
          {"Dropout", shaped(run_dropout)}};
}

}  // namespace ferry::ops
