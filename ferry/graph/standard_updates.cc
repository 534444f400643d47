#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// What changes variables at the end of a step. Output 0 is the memory of the first of them.

namespace ferry::graph {
namespace {

using tensor::Spec;

Status want_scalar(const Inference& node, std::size_t input) {
  FERRY_TRY(want_type(node, input, tensor::ElementType::kF32));
  if (node.inputs[input].shape.rank() != 0)
    return fail(Code::kInvalidArgument, "input {} is {}, and should be a scalar", input,
                node.inputs[input].to_string());
  return {};
}

// Inputs [first, end) look like input 0.
Status want_like_variable(const Inference& node, std::size_t first, std::size_t end) {
  for (auto input = first; input < end; ++input) {
    FERRY_TRY(want_type(node, input, node.inputs[0].type));
    FERRY_TRY(shape_of_both(node.inputs[0].shape, node.inputs[input].shape));
  }
  return {};
}

Status want_numbers(const Inference& node, std::initializer_list<std::string_view> names) {
  for (const auto name : names) FERRY_TRY(attribute<double>(node, name));
  return {};
}

Inferred infer_assign(const Inference& node) {
  FERRY_TRY(want_like_variable(node, 1, 2));
  return std::vector<Spec>{node.inputs[0]};
}

// The variable, its slots of the same shape, the rate, gradients.
Inferred infer_apply(const Inference& node, std::size_t slots) {
  FERRY_TRY(want_f32(node));
  FERRY_TRY(attribute_or<double>(node, "scale", 1));
  FERRY_TRY(want_like_variable(node, 1, 1 + slots));
  FERRY_TRY(want_scalar(node, 1 + slots));
  FERRY_TRY(want_like_variable(node, 2 + slots, node.inputs.size()));
  return std::vector<Spec>{node.inputs[0]};
}

Inferred infer_sgd(const Inference& node) { return infer_apply(node, 0); }

Inferred infer_momentum(const Inference& node) {
  FERRY_TRY(want_numbers(node, {"momentum"}));
  return infer_apply(node, 1);
}

Inferred infer_adam(const Inference& node) {
  FERRY_TRY(want_f32(node));
  FERRY_TRY(attribute_or<double>(node, "scale", 1));
  FERRY_TRY(want_numbers(node, {"beta1", "beta2", "epsilon"}));
  FERRY_TRY(want_like_variable(node, 1, 3));
  FERRY_TRY(want_scalar(node, 3));
  FERRY_TRY(want_scalar(node, 4));
  FERRY_TRY(want_like_variable(node, 5, node.inputs.size()));
  return std::vector<Spec>{node.inputs[0]};
}

Inferred infer_sgd_sparse(const Inference& node) {
  FERRY_TRY(attribute_or<double>(node, "scale", 1));
  FERRY_TRY(want_scalar(node, 1));
  if (node.inputs.size() % 2 != 0)
    return fail(Code::kInvalidArgument, "rows come with ids, and there are {} inputs",
                node.inputs.size());
  for (std::size_t rows = 2; rows < node.inputs.size(); rows += 2) {
    Letters dims(node);
    FERRY_TRY(dims.match(0, "VD"));
    FERRY_TRY(dims.match(rows, "RD"));
    FERRY_TRY(dims.match(rows + 1, "R", tensor::ElementType::kI32));
  }
  return std::vector<Spec>{node.inputs[0]};
}

Inferred infer_average(const Inference& node) {
  FERRY_TRY(want_f32(node));
  FERRY_TRY(want_numbers(node, {"decay"}));
  return infer_assign(node);
}

// The first `updates` inputs are variables.
OpDef update_op(std::string name, std::uint32_t least, std::uint32_t most,
                Inferred (*infer)(const Inference&), std::uint32_t updates) {
  return {std::move(name),  least, most, infer, {}, {}, /*forwards=*/true, updates,
          /*stateful=*/true};
}

}  // namespace

std::vector<OpDef> update_ops() {
  constexpr auto kAny = OpDef::kAnyNumber;
  return {
      update_op("Assign", 2, 2, infer_assign, 1),
      update_op("ApplySgd", 3, kAny, infer_sgd, 1),
      update_op("ApplyMomentum", 4, kAny, infer_momentum, 2),
      update_op("ApplyAdam", 6, kAny, infer_adam, 4),
      update_op("ApplySgdSparse", 4, kAny, infer_sgd_sparse, 1),
      update_op("UpdateAverage", 2, 2, infer_average, 1),
  };
}

}  // namespace ferry::graph
