#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/attributes.h"

namespace ferry::graph {

class Gradient;

// What a shape function sees: the inputs' specs, whose dimensions may be unknown, and the
// attributes.
struct Inference {
  std::span<const tensor::Spec> inputs;
  const Attributes& attributes;
};

// Output `output` may be written over the memory of input `input`, when nobody else uses that: the
// kernel reads an element before it writes the one in its place.
struct Reuse {
  std::uint32_t input = 0;
  std::uint32_t output = 0;
};

// What the graph knows of an operator. Kernels are another matter (ferry/ops), so that a graph can
// be built and planned where none are.
struct OpDef {
  static constexpr std::uint32_t kAnyNumber = 0xffffffff;

  std::string name;
  std::uint32_t least_inputs = 0;
  std::uint32_t most_inputs = 0;
  // Types and shapes of the outputs, checked against the inputs and attributes; unknown dimensions
  // propagate. kInvalidArgument says what does not fit.
  std::function<Result<std::vector<tensor::Spec>>(const Inference&)> infer;
  // Adds the nodes of the gradient (gradient.h). Empty: nothing flows back through it.
  std::function<Status(Gradient&)> gradient = {};
  std::vector<Reuse> reuses = {};
  // Output 0 is the memory of input 0 under another name (Identity, Reshape).
  bool forwards = false;
  // So many inputs, from the first, are variables that the node updates.
  std::uint32_t updates = 0;
  // What it gives depends on more than its inputs (variables, feeds, random numbers), or it does
  // more than give outputs: never folded.
  bool stateful = false;
};

}  // namespace ferry::graph
