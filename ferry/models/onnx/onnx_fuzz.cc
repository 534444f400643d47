#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "ferry/models/onnx_model_internal.h"

// A model that is accepted can be built again, and its variables begin with values that fit.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  if (size > 0) std::memcpy(bytes->data(), data, size);
  auto file = ferry::models::onnx::parse_file(std::move(bytes));
  if (!file) return 0;
  const auto model = ferry::models::onnx::model_of(*std::move(file), "fuzz", {.batch = 2});
  if (!model) return 0;
  ferry::graph::Graph graph;
  ferry::graph::Builder builder(graph);
  const auto tower = model->tower(builder);
  if (!builder.status() || !tower.loss) std::abort();
  for (const auto& node : graph.nodes())
    if (node.op->name == "Variable" && model->initial.at(node.name).spec() != node.outputs[0])
      std::abort();
  return 0;
}
