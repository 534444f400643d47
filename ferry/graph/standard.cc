#include "ferry/graph/standard_internal.h"

namespace ferry::graph {
namespace {

using tensor::Spec;

Result<std::vector<Spec>> infer_declared(const Inference& node) {
  const auto type = FERRY_TRY(node.attributes.get<tensor::ElementType>("type"));
  const auto shape = FERRY_TRY(node.attributes.get<tensor::Shape>("shape"));
  return std::vector<Spec>{{type, shape}};
}

Result<std::vector<Spec>> infer_const(const Inference& node) {
  const auto value = FERRY_TRY(node.attributes.get<tensor::Tensor>("value"));
  return std::vector<Spec>{value.spec()};
}

Result<std::vector<Spec>> infer_same(const Inference& node) {
  return std::vector<Spec>{node.inputs[0]};
}

}  // namespace

std::vector<OpDef> standard_ops() {
  return {
      {.name = "Input", .infer = infer_declared, .stateful = true},
      {.name = "Const", .infer = infer_const},
      {.name = "Variable", .infer = infer_declared, .stateful = true},
      {.name = "OnesLike", .least_inputs = 1, .most_inputs = 1, .infer = infer_same},
  };
}

}  // namespace ferry::graph
