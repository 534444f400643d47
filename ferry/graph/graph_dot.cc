#include <map>

#include "ferry/graph/graph_text.h"

namespace ferry::graph {
namespace {

std::string dot_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string dot_node(const Node& node) {
  // The line break is graphviz's, so it stays outside of what is quoted.
  auto label = dot_quoted(node.name);
  label.insert(label.size() - 1, fmt::format("\\n{}", node.op->name));
  const auto* shape = node.op->updates > 0          ? "house"
                      : node.op->name == "Variable" ? "cylinder"
                                                    : "box";
  return fmt::format("    n{} [label={}, shape={}];\n", node.id, label, shape);
}

std::string dot_edges(const Graph& graph, const Node& node) {
  std::string text;
  for (const auto& input : node.inputs)
    text += fmt::format("  n{} -> n{} [label=\"{}\"];\n", input.node, node.id,
                        graph.spec(input).to_string());
  for (const auto before : node.after)
    text += fmt::format("  n{} -> n{} [style=dashed];\n", before, node.id);
  return text;
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::map<std::string, std::string> nodes;
  for (const auto& node : graph.nodes()) nodes[node.task] += dot_node(node);
  std::string text = "digraph {\n";
  std::size_t number = 0;
  for (const auto& [task, inside] : nodes)
    text += task.empty() ? inside
                         : fmt::format("  subgraph cluster_{} {{\n    label={};\n{}  }}\n",
                                       number++, dot_quoted(task), inside);
  for (const auto& node : graph.nodes()) text += dot_edges(graph, node);
  return text + "}\n";
}

}  // namespace ferry::graph
