#include "ferry/graph/graph_text.h"

#include <algorithm>
#include <set>

#include "ferry/graph/graph_json_internal.h"

namespace ferry::graph {
namespace {

constexpr std::int64_t kTextVersion = 1;

OrderedJson input_to_json(const Graph& graph, Output output) {
  const auto& name = graph.node(output.node).name;
  if (output.index == 0) return name;
  return OrderedJson::array({name, output.index});
}

OrderedJson node_to_json(const Graph& graph, const Node& node) {
  OrderedJson json = {{"name", node.name}, {"op", node.op->name}};
  for (const auto& input : node.inputs) json["inputs"].push_back(input_to_json(graph, input));
  for (const auto& [name, value] : node.attributes.all())
    json["attributes"][name] = attribute_to_json(value);
  for (const auto before : node.after) json["after"].push_back(graph.node(before).name);
  if (!node.task.empty()) json["task"] = node.task;
  return json;
}

// How deep brackets nest, so that nothing that parses them needs a deep stack.
std::size_t depth_of(std::string_view text) {
  std::size_t depth = 0;
  std::size_t most = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') ++at;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') most = std::max(most, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return most;
}

Result<Json> parse_json(std::string_view text, const TextLimits& limits) {
  if (text.size() > limits.bytes)
    return fail(Code::kResourceExhausted, "a graph's text of {} bytes; {} is the most", text.size(),
                limits.bytes);
  if (const auto depth = depth_of(text); depth > limits.depth)
    return fail(Code::kResourceExhausted, "brackets nest {} deep; {} is the most", depth,
                limits.depth);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return fail(Code::kInvalidArgument, "a graph's text is no JSON: {}", error.what());
  }
}

// What an object has under a name; null if it has nothing.
const Json& part_of(const Json& json, const char* name) {
  static const Json kNothing;
  const auto found = json.find(name);
  return found == json.end() ? kNothing : *found;
}

Status want_keys(const Json& json, const std::set<std::string_view>& allowed) {
  if (!json.is_object()) return fail(Code::kInvalidArgument, "it is not in braces");
  for (const auto& item : json.items())
    if (allowed.count(item.key()) == 0)
      return fail(Code::kInvalidArgument, "'{}' means nothing there", item.key());
  return {};
}

Result<std::string> text_of(const Json& json, const char* name) {
  const auto& part = part_of(json, name);
  if (!part.is_string() || part.get_ref<const std::string&>().empty())
    return fail(Code::kInvalidArgument, "'{}' should be a text", name);
  return part.get<std::string>();
}

// A list that may be left out.
Result<std::vector<Json>> list_of(const Json& json, const char* name) {
  const auto& part = part_of(json, name);
  if (part.is_null()) return std::vector<Json>{};
  if (!part.is_array()) return fail(Code::kInvalidArgument, "'{}' should be a list", name);
  return std::vector<Json>(part.begin(), part.end());
}

// Reads nodes one after the other into a graph.
class TextReader {
 public:
  explicit TextReader(const Json& nodes) {
    for (const auto& node : nodes)
      if (const auto name = node.is_object() ? text_of(node, "name") : std::string(); name)
        names_.insert(*name);
  }

  Status read(const Json& json) {
    FERRY_TRY(want_keys(json, {"name", "op", "inputs", "attributes", "after", "task"}));
    Graph::NewNode node{.op = FERRY_TRY(text_of(json, "op")),
                        .name = FERRY_TRY(text_of(json, "name"))};
    if (graph_.find(node.name))
      return fail(Code::kInvalidArgument, "there are two nodes '{}'", node.name);
    for (const auto& input : FERRY_TRY(list_of(json, "inputs")))
      node.inputs.push_back(FERRY_TRY(input_of(input)));
    node.attributes = FERRY_TRY(attributes_of(json));
    if (json.contains("task")) node.task = FERRY_TRY(text_of(json, "task"));
    return add(std::move(node), json);
  }

  // Edges of control may go to nodes that come later.
  Result<Graph> finish() {
    for (const auto& [then, name] : after_) {
      const auto first = graph_.find(name);
      if (!first)
        return fail(Code::kInvalidArgument, "node '{}' waits for '{}', which there is not",
                    graph_.node(then).name, name);
      graph_.order(*first, then);
    }
    FERRY_TRY(graph_.sorted());
    return std::move(graph_);
  }

 private:
  Status add(Graph::NewNode node, const Json& json) {
    const auto id = FERRY_TRY(graph_.add(std::move(node)));
    for (const auto& before : FERRY_TRY(list_of(json, "after"))) {
      if (!before.is_string()) return fail(Code::kInvalidArgument, "'after' should name nodes");
      after_.emplace_back(id, before.get<std::string>());
    }
    return {};
  }

  Result<Output> input_of(const Json& json) const {
    const bool pair = json.is_array() && json.size() == 2 && json[1].is_number_unsigned();
    const auto& name = pair ? json[0] : json;
    if (!name.is_string())
      return fail(Code::kInvalidArgument, "an input is \"name\" or [\"name\", index]");
    const auto index = pair ? json[1].get<std::uint64_t>() : 0;
    const auto& wanted = name.get_ref<const std::string&>();
    const auto found = graph_.find(wanted);
    if (!found && names_.count(wanted) > 0)
      return fail(Code::kInvalidArgument,
                  "its input '{}' does not come before it: the inputs make a cycle, or the nodes "
                  "are out of order",
                  wanted);
    if (!found || index >= graph_.node(*found).outputs.size())
      return fail(Code::kInvalidArgument, "its input '{}', output {}, is in no node", wanted,
                  index);
    return Output{*found, static_cast<std::uint32_t>(index)};
  }

  static Result<Attributes> attributes_of(const Json& json) {
    Attributes attributes;
    const auto& part = part_of(json, "attributes");
    if (part.is_null()) return attributes;
    if (!part.is_object()) return fail(Code::kInvalidArgument, "'attributes' should be in braces");
    for (const auto& item : part.items()) {
      auto value = attribute_from_json(item.value());
      if (!value)
        return fail(Code::kInvalidArgument, "attribute '{}': {}", item.key(),
                    value.error().message());
      attributes.set(item.key(), *std::move(value));
    }
    return attributes;
  }

  Graph graph_;
  std::set<std::string> names_;
  std::vector<std::pair<NodeId, std::string>> after_;
};

// The error of a node's text, with the node's name and number.
Error about_node(const Error& error, const Json& node, std::size_t number) {
  const auto name = node.is_object() ? text_of(node, "name") : std::string();
  return {error.code(),
          fmt::format("node {} of a graph's text ('{}'): {}", number, name.value_or(""),
                      error.message()),
          error.os_code(), error.file(), error.line()};
}

}  // namespace

Result<std::string> to_text(const Graph& graph) {
  try {
    std::string text = fmt::format("{{\"version\": {}, \"nodes\": [", kTextVersion);
    for (const auto& node : graph.nodes())
      text += fmt::format("{}\n{}", node.id == 0 ? "" : ",", node_to_json(graph, node).dump());
    return text + "]}\n";
  } catch (const OrderedJson::exception& error) {
    return fail(Code::kInvalidArgument, "the graph has a text that is not UTF-8: {}", error.what());
  }
}

Result<Graph> from_text(std::string_view text, const TextLimits& limits) {
  const auto json = FERRY_TRY(parse_json(text, limits));
  FERRY_TRY(want_keys(json, {"version", "nodes"}));
  if (part_of(json, "version") != kTextVersion)
    return fail(Code::kInvalidArgument, "a graph's text should be of version {}", kTextVersion);
  const auto& nodes = part_of(json, "nodes");
  if (!nodes.is_array()) return fail(Code::kInvalidArgument, "a graph's text has a list of nodes");
  if (nodes.size() > limits.nodes)
    return fail(Code::kResourceExhausted, "a graph of {} nodes; {} is the most", nodes.size(),
                limits.nodes);
  TextReader reader(nodes);
  for (std::size_t number = 0; number < nodes.size(); ++number)
    if (auto read = reader.read(nodes[number]); !read)
      return tl::unexpected(about_node(read.error(), nodes[number], number));
  return reader.finish();
}

}  // namespace ferry::graph
