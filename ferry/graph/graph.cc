#include "ferry/graph/graph.h"

#include <functional>
#include <queue>

namespace ferry::graph {
namespace {

std::vector<NodeId> waits_for(const Node& node) {
  std::vector<NodeId> before(node.after);
  for (const auto& input : node.inputs) before.push_back(input.node);
  return before;
}

// "2", "2 to 3", "1 or more".
std::string arity_of(const OpDef& op) {
  if (op.most_inputs == OpDef::kAnyNumber) return fmt::format("{} or more", op.least_inputs);
  if (op.most_inputs == op.least_inputs) return fmt::format("{}", op.least_inputs);
  return fmt::format("{} to {}", op.least_inputs, op.most_inputs);
}

// Some cycle among the nodes that could not be ordered, as "a -> b -> a".
std::string cycle_among(const Graph& graph, const std::vector<std::uint32_t>& missing) {
  NodeId at = 0;
  while (missing[at] == 0) ++at;
  std::vector<bool> seen(graph.size());
  std::vector<NodeId> path;
  while (!seen[at]) {
    seen[at] = true;
    path.push_back(at);
    for (const auto before : waits_for(graph.node(at))) {
      if (missing[before] == 0) continue;
      at = before;
      break;
    }
  }
  // The way back from `at` to itself, walked forwards.
  std::string text = graph.node(at).name;
  for (auto step = path.rbegin(); *step != at; ++step)
    text = fmt::format("{} -> {}", text, graph.node(*step).name);
  return fmt::format("{} -> {}", text, graph.node(at).name);
}

}  // namespace

Status Graph::check_edges(const NewNode& node) const {
  for (const auto& input : node.inputs) {
    if (input.node >= nodes_.size() || input.index >= nodes_[input.node].outputs.size())
      return fail(Code::kInvalidArgument, "node '{}' ({}) has an input that is in no node",
                  node.name, node.op);
  }
  for (const auto before : node.after) {
    if (before >= nodes_.size())
      return fail(Code::kInvalidArgument, "node '{}' ({}) waits for a node that there is not",
                  node.name, node.op);
  }
  return {};
}

Status Graph::check_updates(const NewNode& node, const OpDef& op) const {
  for (std::uint32_t index = 0; index < op.updates; ++index) {
    const auto& updated = nodes_[node.inputs[index].node];
    if (updated.op->name != "Variable")
      return fail(Code::kInvalidArgument,
                  "node '{}' ({}) updates its input {}, and '{}' ({}) is no variable", node.name,
                  node.op, index, updated.name, updated.op->name);
  }
  return {};
}

std::string Graph::free_name(const NewNode& node) {
  const auto& wanted = node.name.empty() ? node.op : node.name;
  auto name = wanted;
  while (names_.find(name) != names_.end())
    name = fmt::format("{}_{}", wanted, ++last_numbers_[wanted]);
  return name;
}

Result<NodeId> Graph::add(NewNode node) {
  const auto* op = find_op(node.op);
  if (op == nullptr)
    return fail(Code::kNotFound,
                "node '{}' asks for the operator {}, which there is not; register_op() adds one",
                node.name, node.op);
  FERRY_TRY(check_edges(node));
  if (node.inputs.size() < op->least_inputs || node.inputs.size() > op->most_inputs)
    return fail(Code::kInvalidArgument, "node '{}': {} takes {} inputs, not {}", node.name, node.op,
                arity_of(*op), node.inputs.size());
  FERRY_TRY(check_updates(node, *op));
  std::vector<tensor::Spec> inputs;
  for (const auto& input : node.inputs) inputs.push_back(spec(input));
  auto outputs = op->infer({inputs, node.attributes});
  if (!outputs)
    return fail(outputs.error().code(), "node '{}' ({}): {}", node.name, node.op,
                outputs.error().message());
  const auto id = static_cast<NodeId>(nodes_.size());
  auto name = free_name(node);
  names_.emplace(name, id);
  nodes_.push_back({.id = id,
                    .name = std::move(name),
                    .op = op,
                    .inputs = std::move(node.inputs),
                    .after = std::move(node.after),
                    .attributes = std::move(node.attributes),
                    .task = std::move(node.task),
                    .outputs = *std::move(outputs)});
  return id;
}

void Graph::order(NodeId first, NodeId then) {
  FERRY_ASSERT(first < nodes_.size() && then < nodes_.size(), "both are nodes of this graph");
  nodes_[then].after.push_back(first);
}

std::optional<NodeId> Graph::find(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

Result<std::vector<NodeId>> Graph::sorted() const {
  std::vector<std::vector<NodeId>> next(nodes_.size());
  std::vector<std::uint32_t> missing(nodes_.size());
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const auto& node : nodes_) {
    for (const auto before : waits_for(node)) {
      next[before].push_back(node.id);
      ++missing[node.id];
    }
    if (missing[node.id] == 0) ready.push(node.id);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const auto id = ready.top();
    ready.pop();
    order.push_back(id);
    for (const auto then : next[id])
      if (--missing[then] == 0) ready.push(then);
  }
  if (order.size() < nodes_.size())
    return fail(Code::kInvalidArgument, "the graph has a cycle: {}", cycle_among(*this, missing));
  return order;
}

}  // namespace ferry::graph
