#pragma once

#include "ferry/models/model.h"

namespace ferry::models {

// For machines without a GPU: a model whose computation is replaced by waiting.
//
// What is the same: the variables, the order in which they are used and their gradients made, every
// byte of each gradient (written where the transport wants it), and the updates. What is not:
// layers wait, asleep, for as long as they would compute, and gradients are made-up numbers that
// depend on the step and the weights. A table that is looked up gets a gradient as large as itself.
struct Emulated {
  Model model;
  double seconds = 0;      // of computation in a step
  bool estimated = false;  // by counting operations, where nothing was published
};
// kInvalidArgument for a model about whose computation nothing is known.
Result<Emulated> emulate(const Model& model, std::int64_t batch);

// Floating-point operations of a graph's convolutions, products and recurrences; dimensions that
// are unknown count as one.
double operations_of(const graph::Graph& graph);

}  // namespace ferry::models
