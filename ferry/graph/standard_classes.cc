#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Classes and rows: softmax, losses, tables that are looked up.

namespace ferry::graph {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;

// For Softmax and for SoftmaxGrad.
Inferred infer_softmax(const Inference& node) {
  FERRY_TRY(want_f32(node));
  FERRY_TRY(want_rank_at_least(node, 0, 1));
  auto shape = node.inputs[0].shape;
  for (const auto& input : node.inputs) shape = FERRY_TRY(shape_of_both(shape, input.shape));
  return std::vector<Spec>{{node.inputs[0].type, shape}};
}

Inferred infer_cross_entropy(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "NC"));
  FERRY_TRY(dims.match(1, "N", ElementType::kI32));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N']})),
                           FERRY_TRY(f32_of({dims['N'], dims['C']}))};
}

Inferred infer_cross_entropy_grad(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "N"));
  FERRY_TRY(dims.match(1, "NC"));
  return std::vector<Spec>{FERRY_TRY(f32_of({dims['N'], dims['C']}))};
}

Inferred infer_accuracy(const Inference& node) {
  FERRY_TRY(infer_cross_entropy(node));
  return std::vector<Spec>{FERRY_TRY(f32_of({}))};
}

Inferred infer_embedding(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "VD"));
  FERRY_TRY(want_type(node, 1, ElementType::kI32));
  auto looked_up = dims_of(node.inputs[1].shape);
  looked_up.push_back(dims['D']);
  return std::vector<Spec>{FERRY_TRY(f32_of(looked_up))};
}

// Rows of a sparse gradient, and the number of the row of the table that each is for.
Inferred infer_embedding_grad(const Inference& node) {
  const std::vector<Spec> forward = {node.inputs[2], node.inputs[1]};
  const auto y = FERRY_TRY(infer_embedding({forward, node.attributes})).front();
  FERRY_TRY(want_type(node, 0, y.type));
  const auto dy = FERRY_TRY(shape_of_both(node.inputs[0].shape, y.shape));
  return std::vector<Spec>{FERRY_TRY(f32_of({Shape::kUnknown, dy.dim(dy.rank() - 1)})),
                           {ElementType::kI32, FERRY_TRY(Shape::of({Shape::kUnknown}))}};
}

Inferred infer_densify(const Inference& node) {
  Letters dims(node);
  FERRY_TRY(dims.match(0, "RD"));
  FERRY_TRY(dims.match(1, "R", ElementType::kI32));
  FERRY_TRY(dims.match(2, "VD"));
  return std::vector<Spec>{node.inputs[2]};
}

Status softmax_back(Gradient& g) {
  g.set(0, g.builder().add("SoftmaxGrad", {g.incoming(), g.output()}));
  return {};
}

Status cross_entropy_back(Gradient& g) {
  FERRY_TRY(g.want_only_first());
  if (g.wants(0)) g.set(0, g.builder().add("SoftmaxCrossEntropyGrad", {g.incoming(), g.output(1)}));
  return {};
}

Status embedding_back(Gradient& g) {
  if (g.wants(0))
    g.set(0, g.builder().add("EmbeddingGrad", {g.incoming(), g.input(1), g.input(0)}));
  return {};
}

}  // namespace

std::vector<OpDef> class_ops() {
  return {
      {"Softmax", 1, 1, infer_softmax, softmax_back},
      {"SoftmaxGrad", 2, 2, infer_softmax},
      {"SoftmaxCrossEntropy", 2, 2, infer_cross_entropy, cross_entropy_back},
      {"SoftmaxCrossEntropyGrad", 2, 2, infer_cross_entropy_grad, {}, {{1, 0}}},
      {"Accuracy", 2, 2, infer_accuracy},
      {"Embedding", 2, 2, infer_embedding, embedding_back},
      {"EmbeddingGrad", 3, 3, infer_embedding_grad},
      {"Densify", 3, 3, infer_densify},
  };
}

}  // namespace ferry::graph
