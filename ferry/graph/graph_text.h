#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "ferry/graph/graph.h"

namespace ferry::graph {

// A graph as JSON, one node a line, inputs before those who use them:
//
//   {"version": 1, "nodes": [
//   {"name":"x","op":"Input","attributes":{"shape":{"shape":[-1,3]},"type":{"type":"f32"}}},
//   {"name":"y","op":"Relu","inputs":["x"],"task":"/job:worker/task:0","after":["z"]}]}
//
// An input is the name of a node, for its first output, or ["name", index]. An attribute is its
// kind and its value; tensors are base64. Types and shapes of outputs are inferred again.
//
// kInvalidArgument for a name or a text that is not UTF-8.
Result<std::string> to_text(const Graph& graph);

struct TextLimits {
  std::size_t bytes = std::size_t{64} << 20U;
  std::size_t nodes = std::size_t{1} << 20U;
  std::size_t depth = 16;  // of brackets in brackets
};
// From text that cannot be trusted. kResourceExhausted beyond the limits, kNotFound for an operator
// that there is not, kInvalidArgument for anything else that is no graph; the message names the
// node.
Result<Graph> from_text(std::string_view text, const TextLimits& limits = {});

// For graphviz: tasks are boxes around their nodes, edges say what flows, edges of control are
// dashed.
std::string to_dot(const Graph& graph);

}  // namespace ferry::graph
