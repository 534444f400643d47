#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// One element of the result from one element of each input.

namespace ferry::graph {
namespace {

using tensor::Spec;

Inferred infer_pair(const Inference& node) {
  FERRY_TRY(want_f32(node));
  const auto shape = FERRY_TRY(broadcast_shape(node.inputs[0].shape, node.inputs[1].shape));
  return std::vector<Spec>{{node.inputs[0].type, shape}};
}

// All inputs are of one shape, and so is the result.
Inferred infer_alike(const Inference& node) {
  FERRY_TRY(want_f32(node));
  auto shape = node.inputs[0].shape;
  for (const auto& input : node.inputs) shape = FERRY_TRY(shape_of_both(shape, input.shape));
  return std::vector<Spec>{{node.inputs[0].type, shape}};
}

Inferred infer_scale(const Inference& node) {
  FERRY_TRY(attribute<double>(node, "factor"));
  return infer_alike(node);
}

// The first input's elements, and the second's shape; one of them broadcasts to the other.
Inferred infer_to_shape(const Inference& node, const Spec& wide, const Spec& narrow) {
  FERRY_TRY(want_f32(node));
  const auto whole = FERRY_TRY(broadcast_shape(wide.shape, narrow.shape));
  if (!shape_of_both(whole, wide.shape))
    return fail(Code::kInvalidArgument, "{} cannot be broadcast to {}", narrow.to_string(),
                wide.to_string());
  return std::vector<Spec>{node.inputs[1]};
}
Inferred infer_sum_to(const Inference& node) {
  return infer_to_shape(node, node.inputs[0], node.inputs[1]);
}
Inferred infer_broadcast_to(const Inference& node) {
  return infer_to_shape(node, node.inputs[1], node.inputs[0]);
}

Inferred infer_dropout(const Inference& node) {
  const auto rate = FERRY_TRY(attribute<double>(node, "rate"));
  FERRY_TRY(attribute<std::int64_t>(node, "seed"));
  if (!(rate >= 0 && rate < 1))
    return fail(Code::kInvalidArgument, "'rate' is {}; it is from 0 to less than 1", rate);
  auto specs = FERRY_TRY(infer_alike(node));
  specs.push_back(specs.front());
  return specs;
}

// What flowed into a broadcast result, for one of its inputs. Unknown dimensions may turn out to
// be a 1 beside something else.
Expr narrowed(Expr gradient, Expr like) {
  const auto& shape = like.spec().shape;
  if (shape.known() && gradient && gradient.spec().shape == shape) return gradient;
  return sum_to(gradient, like);
}

Status add_back(Gradient& g) {
  for (std::size_t i = 0; i < 2; ++i)
    if (g.wants(i)) g.set(i, narrowed(g.incoming(), g.input(i)));
  return {};
}
Status sub_back(Gradient& g) {
  if (g.wants(0)) g.set(0, narrowed(g.incoming(), g.input(0)));
  if (g.wants(1)) g.set(1, -narrowed(g.incoming(), g.input(1)));
  return {};
}
Status mul_back(Gradient& g) {
  if (g.wants(0)) g.set(0, narrowed(g.incoming() * g.input(1), g.input(0)));
  if (g.wants(1)) g.set(1, narrowed(g.incoming() * g.input(0), g.input(1)));
  return {};
}
Status div_back(Gradient& g) {
  const auto share = g.incoming() / g.input(1);
  if (g.wants(0)) g.set(0, narrowed(share, g.input(0)));
  if (g.wants(1)) g.set(1, -narrowed(share * g.output(), g.input(1)));
  return {};
}
// max(a, b) = b + relu(a - b): where both are equal, all flows to b.
Status maximum_back(Gradient& g) {
  const auto over = relu(g.input(0) - g.input(1));
  const auto to_a = g.builder().add("ReluGrad", {g.incoming(), over});
  if (g.wants(0)) g.set(0, narrowed(to_a, g.input(0)));
  if (g.wants(1)) g.set(1, narrowed(g.incoming() - to_a, g.input(1)));
  return {};
}
Status add_n_back(Gradient& g) {
  for (std::size_t i = 0; i < g.inputs(); ++i) g.set(i, g.incoming());
  return {};
}
Status sum_to_back(Gradient& g) {
  if (g.wants(0)) g.set(0, broadcast_to(g.incoming(), g.input(0)));
  return {};
}
Status broadcast_to_back(Gradient& g) {
  if (g.wants(0)) g.set(0, narrowed(g.incoming(), g.input(0)));
  return {};
}
Status scale_back(Gradient& g) {
  g.set(0, g.incoming() * g.attributes().get_or<double>("factor", 1));
  return {};
}
Status dropout_back(Gradient& g) {
  g.set(0, g.incoming() * g.output(1));
  return {};
}

// An operator of one input, whose gradient is a formula of what flowed in.
OpDef curve(std::string name, Expr (*back)(Gradient&)) {
  auto flow = [back](Gradient& g) -> Status {
    g.set(0, back(g));
    return {};
  };
  return {std::move(name), 1, 1, infer_alike, flow, {{0, 0}}};
}

// The same where a kernel makes it from what flowed in and the result.
OpDef curve_with_kernel(std::string name) {
  auto flow = [kernel = name + "Grad"](Gradient& g) -> Status {
    g.set(0, g.builder().add(kernel, {g.incoming(), g.output()}));
    return {};
  };
  return {std::move(name), 1, 1, infer_alike, flow, {{0, 0}}};
}

}  // namespace

std::vector<OpDef> element_ops() {
  const std::vector<Reuse> either = {{0, 0}, {1, 0}};
  const std::vector<Reuse> first = {{0, 0}};
  return {
      {"Add", 2, 2, infer_pair, add_back, either},
      {"Sub", 2, 2, infer_pair, sub_back, either},
      {"Mul", 2, 2, infer_pair, mul_back, either},
      {"Div", 2, 2, infer_pair, div_back, either},
      {"Maximum", 2, 2, infer_pair, maximum_back, either},
      {"AddN", 1, OpDef::kAnyNumber, infer_alike, add_n_back, first},
      curve("Neg", [](Gradient& g) { return -g.incoming(); }),
      curve("Exp", [](Gradient& g) { return g.incoming() * g.output(); }),
      curve("Log", [](Gradient& g) { return g.incoming() / g.input(0); }),
      curve("Sqrt", [](Gradient& g) { return g.incoming() / g.output() * 0.5; }),
      curve("Square", [](Gradient& g) { return g.incoming() * g.input(0) * 2; }),
      curve_with_kernel("Relu"),
      curve_with_kernel("Sigmoid"),
      curve_with_kernel("Tanh"),
      {"ReluGrad", 2, 2, infer_alike, {}, first},
      {"SigmoidGrad", 2, 2, infer_alike, {}, first},
      {"TanhGrad", 2, 2, infer_alike, {}, first},
      {"Scale", 1, 1, infer_scale, scale_back, first},
      {"SumTo", 2, 2, infer_sum_to, sum_to_back},
      {"BroadcastTo", 2, 2, infer_broadcast_to, broadcast_to_back},
      {"Dropout", 1, 1, infer_dropout, dropout_back, {}, false, 0, /*stateful=*/true},
  };
}

}  // namespace ferry::graph
