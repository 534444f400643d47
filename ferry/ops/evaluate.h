#pragma once

#include <map>
#include <string>
#include <vector>

#include "ferry/ops/kernel.h"

namespace ferry::ops {

using Tensors = std::map<std::string, tensor::Tensor, std::less<>>;

struct EvaluateOptions {
  std::uint64_t step = 1;
  // Whether outputs are written over inputs where operators allow it, and variables updated in
  // place where nobody reads the old value any more. What is computed is the same.
  bool reuse = true;
};

// Runs what the fetched outputs need, one node after another, in memory of its own: for tests,
// constants and checks. Variables and feeds go by the names of their nodes. Updated variables are
// in `variables` afterwards. The output of a node that has none may be "fetched", as index 0; it
// gives an empty tensor.
Result<std::vector<tensor::Tensor>> evaluate(const graph::Graph& graph, Tensors& variables,
                                             const Tensors& feeds,
                                             std::span<const graph::Output> fetches,
                                             const EvaluateOptions& options = {});

// A tensor of its own, aligned to 64 bytes; its bytes are not set. kResourceExhausted if there is
// no memory.
Result<tensor::Tensor> make_tensor(const tensor::Spec& spec);

}  // namespace ferry::ops
