#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Normalisation: over a batch, or across channels.

namespace ferry::graph {
namespace {

using tensor::Spec;

Status want_epsilon(const Inference& node) {
  const auto epsilon = FERRY_TRY(attribute<double>(node, "epsilon"));
  if (!(epsilon >= 0))
    return fail(Code::kInvalidArgument, "'epsilon' is {}; it is 0 or more", epsilon);
  return {};
}

// C, the last dimension of input `x`, is the length of the inputs from `first` to the last.
Result<std::int64_t> channels_of(const Inference& node, std::size_t x, std::size_t first) {
  FERRY_TRY(want_epsilon(node));
  FERRY_TRY(want_f32(node));
  FERRY_TRY(want_rank_at_least(node, x, 1));
  Letters dims(node);
  const auto& shape = node.inputs[x].shape;
  FERRY_TRY(dims.set('C', shape.dim(shape.rank() - 1), shape.to_string()));
  for (auto input = first; input < node.inputs.size(); ++input) FERRY_TRY(dims.match(input, "C"));
  return dims['C'];
}

Inferred infer_batch_norm(const Inference& node) {
  const auto channels = FERRY_TRY(channels_of(node, 0, 1));
  const auto channel = FERRY_TRY(f32_of({channels}));
  return std::vector<Spec>{node.inputs[0], channel, channel};
}

Inferred infer_batch_norm_grad(const Inference& node) {
  const auto channels = FERRY_TRY(channels_of(node, 1, 2));
  const auto channel = FERRY_TRY(f32_of({channels}));
  const auto x = FERRY_TRY(shape_of_both(node.inputs[0].shape, node.inputs[1].shape));
  return std::vector<Spec>{{channel.type, x}, channel, channel};
}

Inferred infer_batch_norm_apply(const Inference& node) {
  FERRY_TRY(channels_of(node, 0, 1));
  return std::vector<Spec>{node.inputs[0]};
}

// For Lrn and for LrnGrad: x is the last input.
Inferred infer_lrn(const Inference& node) {
  FERRY_TRY(want_f32(node));
  const auto last = node.inputs.size() - 1;
  FERRY_TRY(want_rank_at_least(node, last, 1));
  const auto size = FERRY_TRY(attribute<std::int64_t>(node, "size"));
  if (size < 1) return fail(Code::kInvalidArgument, "'size' is {}; it is 1 or more", size);
  for (const auto* name : {"alpha", "beta", "bias"}) FERRY_TRY(attribute<double>(node, name));
  const auto shape = FERRY_TRY(shape_of_both(node.inputs[0].shape, node.inputs[last].shape));
  return std::vector<Spec>{{node.inputs[0].type, shape}};
}

Status batch_norm_back(Gradient& g) {
  FERRY_TRY(g.want_only_first());
  const auto all = g.builder().add("BatchNormGrad",
                                   {g.incoming(), g.input(0), g.input(1), g.output(1), g.output(2)},
                                   g.attributes());
  for (std::uint32_t i = 0; i < 3; ++i) g.set(i, all.at(i));
  return {};
}

Status lrn_back(Gradient& g) {
  g.set(0, g.builder().add("LrnGrad", {g.incoming(), g.input(0)}, g.attributes()));
  return {};
}

}  // namespace

std::vector<OpDef> normal_ops() {
  return {
      {"BatchNorm", 3, 3, infer_batch_norm, batch_norm_back},
      {"BatchNormGrad", 5, 5, infer_batch_norm_grad},
      {"BatchNormApply", 5, 5, infer_batch_norm_apply},
      {"Lrn", 1, 1, infer_lrn, lrn_back},
      {"LrnGrad", 2, 2, infer_lrn},
  };
}

}  // namespace ferry::graph
