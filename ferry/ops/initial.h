#pragma once

#include "ferry/ops/evaluate.h"

namespace ferry::ops {

// What a Variable node begins with. The numbers depend on the seed and the variable's name alone:
// the same on every machine. glorot and he count the inputs and outputs of a matrix [I, O] or of
// filters [KH, KW, I, O].
Result<tensor::Tensor> initial_value(const graph::Node& node, std::uint64_t seed);
// The same for all variables of a graph.
Result<Tensors> initial_values(const graph::Graph& graph, std::uint64_t seed);

}  // namespace ferry::ops
