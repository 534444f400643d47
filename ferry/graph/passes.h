#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "ferry/graph/graph.h"

namespace ferry::graph {

// A graph that was made from another one, and what became of the other's nodes and outputs. Those
// that are gone are in neither map.
struct Rewritten {
  Graph graph;
  std::map<NodeId, NodeId> nodes;
  std::map<Output, Output> outputs;
};

// Keeps the targets, all nodes that update variables, and what either needs; names, places and the
// order stay.
Result<Rewritten> prune(const Graph& graph, std::span<const NodeId> targets);

// Runs one node, whose inputs are given. Kernels live above this room.
using Evaluator = std::function<Result<std::vector<tensor::Tensor>>(
    const Node& node, std::span<const tensor::Tensor> inputs)>;

struct FoldOptions {
  // A node whose outputs are larger stays: constants travel with the graph.
  std::uint64_t most_bytes = std::uint64_t{1} << 20U;
};

// Turns nodes whose inputs are all constants into constants, one for each output: the first has the
// node's name, the others "name:1" and so on. What depends on more than its inputs stays, and so
// does what waits for other nodes, and what the evaluator cannot run. prune() then takes away the
// constants that nobody uses any more. kInternal if the evaluator gives something else than the
// shape function promises.
Result<Rewritten> fold(const Graph& graph, const Evaluator& evaluate,
                       const FoldOptions& options = {});

}  // namespace ferry::graph
