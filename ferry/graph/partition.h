#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ferry/graph/graph.h"
#include "ferry/tensor/transfer_protocol.h"

namespace ferry::graph {

using tensor::TransferProtocol;

// A task without its loop: what one process runs.
std::string process_of(const std::string& task);

// One tensor on its way to one task.
struct Crossing {
  std::uint32_t id = 0;
  std::string name;  // of the tensor: "conv1/w", "split:1"
  std::string from;  // tasks
  std::string to;
  tensor::Spec spec;
  TransferProtocol protocol = TransferProtocol::kStatic;
  std::string why;
  std::string variable;  // shared: whose versions are read; there is no send then
  // How early the receiver needs it: the place of its first user among the receiver's nodes.
  std::uint32_t first_use = 0;
};

// What one task runs: its own nodes, with sends and receives at the borders. An RdmaSend or
// RdmaRecv (Dyn where the shape varies) has the crossing's number as its attribute "crossing", and
// a send has its first_use as "needed".
// Whoever reads a variable comes before the node that updates it, and a gradient is sent after the
// variable that it is for was received.
struct Part {
  std::string task;
  Graph graph;
};

struct Partition {
  std::vector<Part> parts;  // in the order of the tasks' names
  std::vector<Crossing> crossings;
};

struct PartitionOptions {
  // Whether the second task can use the first one's memory in place.
  std::function<bool(const std::string& from, const std::string& to)> maps = {};
};

// Cuts a graph along its tasks. Every node keeps its name; constants are wherever they are needed,
// and variables in every loop of their task. kInvalidArgument for a node without a task, a cycle,
// an update of a variable elsewhere, or a read of one that comes after its update.
Result<Partition> partition(const Graph& graph, const PartitionOptions& options = {});

}  // namespace ferry::graph
