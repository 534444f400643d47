#pragma once

#include <span>
#include <vector>

#include "ferry/graph/builder.h"

namespace ferry::graph {

// What a gradient function works with: the node, what flows back into its outputs, and where to put
// what flows on to its inputs. New nodes are placed where the node is.
class Gradient {
 public:
  Gradient(Builder& builder, NodeId node, std::vector<Expr> incoming);

  Builder& builder() { return builder_; }
  // The node itself. Not a reference: adding nodes moves them.
  Expr input(std::size_t index) const;
  Expr output(std::uint32_t index = 0) const;
  std::size_t inputs() const;
  const Attributes& attributes() const { return attributes_; }
  // Of the loss with respect to an output; none where the loss does not depend on it.
  const Expr& incoming(std::size_t index = 0) const { return incoming_[index]; }
  // Of the loss with respect to an input. Inputs that are never set get none.
  void set(std::size_t input, Expr gradient) { outgoing_[input] = gradient; }
  const std::vector<Expr>& outgoing() const { return outgoing_; }

 private:
  Builder& builder_;
  NodeId node_;
  Attributes attributes_;
  std::vector<Expr> incoming_;
  std::vector<Expr> outgoing_;
};

// The gradients of a scalar with respect to each of `of`, as new nodes; zeros for those that it
// does not depend on. kInvalidArgument for a loss that is no scalar, kUnimplemented for an operator
// on the way that has no gradient; both by the builder's status.
std::vector<Expr> gradients(Expr loss, std::span<const Expr> of);

}  // namespace ferry::graph
