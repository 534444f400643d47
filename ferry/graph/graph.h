#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/op.h"

namespace ferry::graph {

using NodeId = std::uint32_t;

// One output of a node.
struct Output {
  NodeId node = 0;
  std::uint32_t index = 0;
  friend auto operator<=>(const Output&, const Output&) = default;
};

struct Node {
  NodeId id = 0;
  std::string name;  // unique in its graph
  const OpDef* op = nullptr;
  std::vector<Output> inputs;
  std::vector<NodeId> after;  // control edges: nodes that end before this one starts
  Attributes attributes;
  std::string task;                   // "/job:worker/task:0"; empty while it is not placed
  std::vector<tensor::Spec> outputs;  // as inferred
};

// A data-flow graph: nodes are operators, edges are tensors. Nodes are only added; passes that take
// some away make a new graph. Nodes are numbered in the order in which they came, and inputs come
// before those who use them. Plain data; not thread-safe.
class Graph {
 public:
  struct NewNode {
    std::string op;
    std::string name;  // empty: made from the operator's; one that is taken gets a number
    std::vector<Output> inputs = {};
    Attributes attributes = {};
    std::vector<NodeId> after = {};
    std::string task = {};
  };
  // Infers types and shapes. kNotFound for an operator that there is not, kInvalidArgument for
  // inputs or attributes that do not fit; both name the node.
  Result<NodeId> add(NewNode node);
  // `then` starts after `first` has ended. May make a cycle, which sorted() finds.
  void order(NodeId first, NodeId then);
  void place(NodeId id, std::string task) { nodes_[id].task = std::move(task); }

  std::size_t size() const { return nodes_.size(); }
  const Node& node(NodeId id) const { return nodes_[id]; }
  std::span<const Node> nodes() const { return nodes_; }
  const tensor::Spec& spec(Output output) const {
    return nodes_[output.node].outputs[output.index];
  }
  std::optional<NodeId> find(std::string_view name) const;
  // An order in which every node comes after its inputs and those it waits for; among those that
  // could be next, the one with the lowest number. kInvalidArgument names the nodes of a cycle.
  Result<std::vector<NodeId>> sorted() const;

 private:
  Status check_edges(const NewNode& node) const;
  Status check_updates(const NewNode& node, const OpDef& op) const;
  std::string free_name(const NewNode& node);

  std::vector<Node> nodes_;
  std::map<std::string, NodeId, std::less<>> names_;
  std::map<std::string, std::uint64_t, std::less<>>
      last_numbers_;  // given to names that were taken
};

}  // namespace ferry::graph
