#include <numeric>
#include <set>

#include "ferry/models/emulate.h"
#include "ferry/models/emulate_internal.h"

// Where a model spends its time, by its graph.

namespace ferry::models {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;

double elements_of(const tensor::Spec& spec) {
  double product = 1;
  for (const auto dim : spec.shape.dims())
    product *= static_cast<double>(dim == tensor::Shape::kUnknown ? 1 : dim);
  return product;
}

// Each output of a product sums over what its weights have beside their last dimension.
double product_operations(const tensor::Spec& y, const tensor::Spec& weights) {
  const auto columns = weights.shape.dims().empty() ? 1 : weights.shape.dims().back();
  return 2 * elements_of(y) * elements_of(weights) /
         static_cast<double>(std::max<std::int64_t>(columns, 1));
}

// The variables that each tensor is made of and of nothing else, by node: a Concat of variables,
// say, is as good as one.
class Origins {
 public:
  explicit Origins(const Graph& graph) : behind_(graph.size()), pure_(graph.size()) {
    for (const auto& node : graph.nodes()) {
      pure_[node.id] = node.op->name == "Variable" || (node.op->name != "Input" && all_pure(node));
      if (node.op->name == "Variable") {
        behind_[node.id] = {node.id};
      } else if (pure_[node.id]) {
        behind_[node.id] = of_inputs(node);
      }
    }
  }
  bool pure(NodeId id) const { return pure_[id]; }
  std::vector<NodeId> of_inputs(const Node& node) const {
    std::vector<NodeId> all;
    for (const auto& input : node.inputs)
      all.insert(all.end(), behind_[input.node].begin(), behind_[input.node].end());
    return all;
  }

 private:
  bool all_pure(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [this](const auto& input) { return pure_[input.node]; });
  }
  std::vector<std::vector<NodeId>> behind_;
  std::vector<bool> pure_;
};

}  // namespace

double operations_of(const Node& node, const Graph& graph) {
  const auto& name = node.op->name;
  const auto spec = [&](std::size_t input) { return graph.spec(node.inputs[input]); };
  if (name == "Conv2D") return product_operations(node.outputs[0], spec(1));
  if (name == "MatMul") {
    const auto& a = spec(0).shape;
    const auto inner = a.dim(node.attributes.get_or("transpose_a", false) ? 0 : 1);
    return 2 * elements_of(node.outputs[0]) * static_cast<double>(std::max<std::int64_t>(inner, 1));
  }
  if (name == "LstmCell") return product_operations(node.outputs[2], spec(3));
  if (name == "GruCell") return product_operations(node.outputs[1], spec(2));
  if (name == "Lstm") return product_operations(node.outputs[2], spec(3));
  if (name == "Gru") return product_operations(node.outputs[1], spec(2));
  return 0;
}

double operations_of(const Graph& graph) {
  return std::accumulate(
      graph.nodes().begin(), graph.nodes().end(), 0.0,
      [&](double sum, const Node& node) { return sum + operations_of(node, graph); });
}

std::vector<Stage> stages_of(const Graph& graph) {
  const Origins origins(graph);
  std::vector<Stage> stages;
  std::set<NodeId> used;
  for (const auto& node : graph.nodes()) {
    if (origins.pure(node.id)) continue;
    const auto operations = operations_of(node, graph);
    std::vector<Stage::Weights> fresh;
    for (const auto id : origins.of_inputs(node))
      if (used.insert(id).second) fresh.push_back({graph.node(id).name, graph.spec({id, 0})});
    if (operations == 0 && fresh.empty()) continue;
    // A bias belongs to the product before it.
    if (stages.empty() || (operations > 0 && !fresh.empty())) stages.emplace_back();
    auto& stage = stages.back();
    stage.operations += operations;
    stage.variables.insert(stage.variables.end(), fresh.begin(), fresh.end());
  }
  return stages;
}

}  // namespace ferry::models
