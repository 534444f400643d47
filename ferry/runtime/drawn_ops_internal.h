// Operators for tests of the runtime: simple enough to be checked by hand.
#pragma once

#include <string>
#include <vector>

#include "ferry/ops/kernel.h"

namespace ferry::runtime::drawn {

// Registers them, once:
//   Twice: x -> 2 x, may reuse x.   Pair: a, b -> a + b.   View: x -> x, forwards.
//   Moody: x -> x, in place in odd steps.   Descend: w, gradients... -> w - sum / 8, updates w.
//   Late [ms]: x -> x, after some time, by polling.
void register_all();

// Tensors of floats, in ordinary memory.
tensor::Tensor floats(std::vector<float> values);
std::vector<float> values_of(const tensor::Tensor& tensor);

// A graph that is drawn in a few lines.
struct Drawing {
  graph::Graph graph;

  graph::Output source(const std::string& op, const std::string& name, std::int64_t elements,
                       const std::string& task = "");
  graph::Output node(const std::string& op, const std::string& name,
                     std::vector<graph::Output> inputs, const std::string& task = "",
                     graph::Attributes attributes = {});
};

}  // namespace ferry::runtime::drawn
