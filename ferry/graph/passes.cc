#include "ferry/graph/passes.h"

namespace ferry::graph {
namespace {

// Copies nodes of one graph into a new one, in their order.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from) {}

  // The node's inputs have been copied or replaced before.
  Status copy(const Node& node) {
    std::vector<Output> inputs;
    for (const auto& input : node.inputs) inputs.push_back(made_.outputs.at(input));
    const auto id = FERRY_TRY(made_.graph.add({.op = node.op->name,
                                               .name = node.name,
                                               .inputs = std::move(inputs),
                                               .attributes = node.attributes,
                                               .task = node.task}));
    made_.nodes[node.id] = id;
    for (std::uint32_t index = 0; index < node.outputs.size(); ++index)
      made_.outputs[{node.id, index}] = {id, index};
    return {};
  }

  // Constants instead of the node.
  Status replace(const Node& node, std::span<const tensor::Tensor> values) {
    for (std::uint32_t index = 0; index < values.size(); ++index) {
      auto name = index == 0 ? node.name : fmt::format("{}:{}", node.name, index);
      const auto id = FERRY_TRY(made_.graph.add({.op = "Const",
                                                 .name = std::move(name),
                                                 .attributes = {{"value", values[index]}},
                                                 .task = node.task}));
      if (index == 0) made_.nodes[node.id] = id;
      made_.outputs[{node.id, index}] = {id, 0};
    }
    return {};
  }

  // Control edges may point backwards, so they come last.
  Rewritten finish() {
    for (const auto& [old, copied] : made_.nodes)
      for (const auto first : from_.node(old).after)
        if (const auto found = made_.nodes.find(first); found != made_.nodes.end())
          made_.graph.order(found->second, copied);
    return std::move(made_);
  }

 private:
  const Graph& from_;
  Rewritten made_;
};

// By node: whether it is a target or an update, or one of those needs it.
std::vector<bool> needed_by(const Graph& graph, std::span<const NodeId> targets) {
  std::vector<bool> needed(graph.size());
  std::vector<NodeId> todo(targets.begin(), targets.end());
  for (const auto& node : graph.nodes())
    if (node.op->updates > 0) todo.push_back(node.id);
  while (!todo.empty()) {
    const auto id = todo.back();
    todo.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    for (const auto& input : graph.node(id).inputs) todo.push_back(input.node);
    for (const auto before : graph.node(id).after) todo.push_back(before);
  }
  return needed;
}

class Folder {
 public:
  Folder(const Evaluator& evaluate, const FoldOptions& options)
      : evaluate_(evaluate), options_(options) {}

  // The values of the node's outputs, or none if it stays.
  Result<std::vector<tensor::Tensor>> values_of(const Node& node) {
    std::vector<tensor::Tensor> inputs;
    for (const auto& input : node.inputs)
      if (const auto found = known_.find(input); found != known_.end())
        inputs.push_back(found->second);
    if (inputs.size() != node.inputs.size() || !may_fold(node)) return no_values();
    auto values = evaluate_(node, inputs);
    if (!values) return no_values();
    FERRY_TRY(check(node, *values));
    return values;
  }
  void remember(const Node& node, std::span<const tensor::Tensor> values) {
    for (std::uint32_t index = 0; index < values.size(); ++index)
      known_[{node.id, index}] = values[index];
  }

 private:
  static std::vector<tensor::Tensor> no_values() { return {}; }

  bool may_fold(const Node& node) const {
    if (node.op->stateful || node.op->updates > 0 || node.outputs.empty() || !node.after.empty())
      return false;
    std::uint64_t bytes = 0;
    for (const auto& spec : node.outputs) {
      const auto size = spec.bytes();
      if (!size || *size > options_.most_bytes - bytes) return false;
      bytes += *size;
    }
    return true;
  }

  static Status check(const Node& node, std::span<const tensor::Tensor> values) {
    bool fit = values.size() == node.outputs.size();
    for (std::size_t index = 0; fit && index < values.size(); ++index)
      fit = node.outputs[index] == values[index].spec();
    if (!fit)
      return fail(Code::kInternal, "node '{}': what {} gave is not what its shape function said",
                  node.name, node.op->name);
    return {};
  }

  const Evaluator& evaluate_;
  const FoldOptions& options_;
  std::map<Output, tensor::Tensor> known_;
};

}  // namespace

Result<Rewritten> prune(const Graph& graph, std::span<const NodeId> targets) {
  for (const auto target : targets)
    if (target >= graph.size())
      return fail(Code::kInvalidArgument, "target {} is no node of the graph", target);
  const auto needed = needed_by(graph, targets);
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes())
    if (needed[node.id]) FERRY_TRY(rewriter.copy(node));
  return rewriter.finish();
}

Result<Rewritten> fold(const Graph& graph, const Evaluator& evaluate, const FoldOptions& options) {
  Rewriter rewriter(graph);
  Folder folder(evaluate, options);
  for (const auto& node : graph.nodes()) {
    if (node.op->name == "Const") {
      const auto value = FERRY_TRY(node.attributes.get<tensor::Tensor>("value"));
      folder.remember(node, {&value, 1});
      FERRY_TRY(rewriter.copy(node));
      continue;
    }
    const auto values = FERRY_TRY(folder.values_of(node));
    if (values.empty()) {
      FERRY_TRY(rewriter.copy(node));
      continue;
    }
    FERRY_TRY(rewriter.replace(node, values));
    folder.remember(node, values);
  }
  return rewriter.finish();
}

}  // namespace ferry::graph
