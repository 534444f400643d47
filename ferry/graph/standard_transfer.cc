#include "ferry/graph/standard_internal.h"

namespace ferry::graph {
namespace {

Result<std::vector<tensor::Spec>> infer_nothing(const Inference&) {
  return std::vector<tensor::Spec>();
}

Result<std::vector<tensor::Spec>> infer_received(const Inference& node) {
  const auto type = FERRY_TRY(node.attributes.get<tensor::ElementType>("type"));
  const auto shape = FERRY_TRY(node.attributes.get<tensor::Shape>("shape"));
  return std::vector<tensor::Spec>{{type, shape}};
}

Result<std::vector<tensor::Spec>> infer_signal(const Inference&) {
  return std::vector<tensor::Spec>{{tensor::ElementType::kU8, {}}};
}

}  // namespace

std::vector<OpDef> transfer_ops() {
  const OpDef send{.name = "RdmaSend",
                   .least_inputs = 1,
                   .most_inputs = 1,
                   .infer = infer_nothing,
                   .stateful = true};
  const OpDef receive{.name = "RdmaRecv", .infer = infer_received, .stateful = true};
  auto send_dynamic = send;
  send_dynamic.name = "RdmaSendDyn";
  auto receive_dynamic = receive;
  receive_dynamic.name = "RdmaRecvDyn";
  return {send,
          receive,
          send_dynamic,
          receive_dynamic,
          {.name = "Signal", .infer = infer_signal, .stateful = true}};
}

}  // namespace ferry::graph
