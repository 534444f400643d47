#include <algorithm>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Sources and plumbing: what values come from, and what only looks at them another way.

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;

Inferred infer_declared(const Inference& node) {
  const auto type = FERRY_TRY(attribute<ElementType>(node, "type"));
  const auto shape = FERRY_TRY(attribute<Shape>(node, "shape"));
  return std::vector<Spec>{{type, shape}};
}

Inferred infer_variable(const Inference& node) {
  auto specs = FERRY_TRY(infer_declared(node));
  if (!specs.front().shape.known())
    return fail(Code::kInvalidArgument, "a variable is stored, and {} has no size",
                specs.front().to_string());
  FERRY_TRY(specs.front().bytes());
  const auto initial = FERRY_TRY(attribute_or<std::string>(node, "initial", "zeros"));
  FERRY_TRY(attribute_or<double>(node, "scale", 0));
  for (const auto* name : {"zeros", "constant", "uniform", "normal", "glorot", "he"})
    if (initial == name) return specs;
  return fail(Code::kInvalidArgument,
              "a variable begins with zeros, constant, uniform, normal, glorot or he, not '{}'",
              initial);
}

Inferred infer_const(const Inference& node) {
  const auto value = FERRY_TRY(attribute<tensor::Tensor>(node, "value"));
  if (FERRY_TRY(value.spec().bytes()) != value.bytes().size())
    return fail(Code::kInvalidArgument, "a constant {} has {} bytes", value.spec().to_string(),
                value.bytes().size());
  return std::vector<Spec>{value.spec()};
}

Inferred infer_same(const Inference& node) { return std::vector<Spec>{node.inputs[0]}; }

// What -1 stands for in `wanted`, if the elements of x tell.
Result<Shape> fill_in(const Shape& x, const Shape& wanted) {
  auto dims = dims_of(wanted);
  const auto open = std::find(dims.begin(), dims.end(), Shape::kUnknown);
  if (open == dims.end() || !x.known()) return wanted;
  *open = 1;
  const auto rest = FERRY_TRY(Shape::of(dims)).elements();
  if (rest == 0 || x.elements() % rest != 0)
    return fail(Code::kInvalidArgument, "{} cannot be seen as {}", x.to_string(),
                wanted.to_string());
  *open = x.elements() / rest;
  return Shape::of(dims);
}

Inferred infer_reshape(const Inference& node) {
  const auto wanted = FERRY_TRY(attribute<Shape>(node, "shape"));
  const auto& x = node.inputs[0];
  if (std::count(wanted.dims().begin(), wanted.dims().end(), Shape::kUnknown) > 1)
    return fail(Code::kInvalidArgument, "one dimension may be -1, and {} has more",
                wanted.to_string());
  const auto shape = FERRY_TRY(fill_in(x.shape, wanted));
  if (shape.known() && x.shape.known() && shape.elements() != x.shape.elements())
    return fail(Code::kInvalidArgument, "{} cannot be seen as {}", x.to_string(),
                wanted.to_string());
  return std::vector<Spec>{{x.type, shape}};
}

Inferred infer_reshape_like(const Inference& node) {
  const auto& x = node.inputs[0];
  const auto& like = node.inputs[1].shape;
  if (x.shape.known() && like.known() && x.shape.elements() != like.elements())
    return fail(Code::kInvalidArgument, "{} cannot be seen as {}", x.to_string(), like.to_string());
  return std::vector<Spec>{{x.type, like}};
}

bool castable(ElementType type) {
  return type != ElementType::kI8 && type != ElementType::kI16 && type != ElementType::kBool;
}

Inferred infer_cast(const Inference& node) {
  const auto to = FERRY_TRY(attribute<ElementType>(node, "type"));
  const auto& x = node.inputs[0];
  if (!castable(x.type) || !castable(to))
    return fail(Code::kInvalidArgument,
                "{} cannot be cast to {}; casts are among f16, bf16, f32, f64, i32, i64 and u8",
                x.to_string(), tensor::name_of(to));
  return std::vector<Spec>{{to, x.shape}};
}

Inferred infer_group(const Inference&) { return std::vector<Spec>{}; }

Status flow_on(Gradient& g) {
  g.set(0, g.incoming());
  return {};
}

// Nothing flows back, and that is right.
Status stop_flow(Gradient&) { return {}; }

Status reshape_back(Gradient& g) {
  if (g.wants(0)) g.set(0, reshape_like(g.incoming(), g.input(0)));
  return {};
}

Status cast_back(Gradient& g) {
  if (g.wants(0)) g.set(0, cast(g.incoming(), g.input(0).spec().type));
  return {};
}

}  // namespace

std::vector<OpDef> source_ops() {
  constexpr auto kAny = OpDef::kAnyNumber;
  return {
      {.name = "Input", .infer = infer_declared, .stateful = true},
      {.name = "Const", .infer = infer_const},
      {.name = "Variable", .infer = infer_variable, .stateful = true},
      {"Identity", 1, 1, infer_same, flow_on, {}, /*forwards=*/true},
      {"StopGradient", 1, 1, infer_same, stop_flow, {}, /*forwards=*/true},
      {"Reshape", 1, 1, infer_reshape, reshape_back, {}, /*forwards=*/true},
      {"ReshapeLike", 2, 2, infer_reshape_like, reshape_back, {}, /*forwards=*/true},
      {"ZerosLike", 1, 1, infer_same, stop_flow},
      {"OnesLike", 1, 1, infer_same, stop_flow},
      {"Cast", 1, 1, infer_cast, cast_back},
      {"Group", 0, kAny, infer_group, stop_flow, {}, false, 0, /*stateful=*/true},
  };
}

}  // namespace ferry::graph
