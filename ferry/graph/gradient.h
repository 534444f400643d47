#pragma once

#include <span>
#include <vector>

#include "ferry/graph/builder.h"

namespace ferry::graph {

// What a gradient function works with: the node, what flows back into its outputs, and where to put
// what flows on to its inputs. New nodes are placed where the node is.
class Gradient {
 public:
  Gradient(Builder& builder, NodeId node, std::vector<Expr> incoming, std::vector<bool> wanted);

  Builder& builder() { return builder_; }
  // The node itself. Not a reference: adding nodes moves them.
  Expr input(std::size_t index) const;
  Expr output(std::uint32_t index = 0) const;
  std::size_t inputs() const;
  const Attributes& attributes() const { return attributes_; }
  // Of the loss with respect to an output; none where the loss does not depend on it.
  const Expr& incoming(std::size_t index = 0) const { return incoming_[index]; }
  // kUnimplemented if something flows into an output behind the first `outputs`.
  Status want_only_first(std::size_t outputs = 1) const;
  // Whether anybody asks for what flows on to an input. At least one is wanted.
  bool wants(std::size_t input) const { return wanted_[input]; }
  // Of the loss with respect to an input. Inputs that are never set get none, and what nobody wants
  // is left where it is.
  void set(std::size_t input, Expr gradient) { outgoing_[input] = gradient; }
  const std::vector<Expr>& outgoing() const { return outgoing_; }

 private:
  Builder& builder_;
  NodeId node_;
  Attributes attributes_;
  std::vector<Expr> incoming_;
  std::vector<bool> wanted_;
  std::vector<Expr> outgoing_;
};

// The gradients of a scalar with respect to each of `of`, as new nodes; none for those that nothing
// flows back to. Several flows into one tensor are added from its last user to its first.
// kInvalidArgument for a loss that is no scalar, kUnimplemented for an operator on the way that has
// no gradient; both by the builder's status.
//
// The gradient of a variable whose only user is one Embedding is sparse: the first output of an
// EmbeddingGrad, the rows, stands for both of its outputs.
std::vector<Expr> flows_to(Expr loss, std::span<const Expr> of);
// The same, with zeros for those that the loss does not depend on.
std::vector<Expr> gradients(Expr loss, std::span<const Expr> of);

bool is_sparse(Expr gradient);
// A sparse gradient as a whole tensor that looks like `like`; any other as it is.
Expr dense(Expr gradient, Expr like);

}  // namespace ferry::graph
