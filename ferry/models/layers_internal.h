#pragma once

#include <string>

#include "ferry/graph/functions.h"
#include "ferry/graph/replicate.h"

namespace ferry::models {

// Layers with their variables, named after the layer. Weights begin as glorot or he says, biases at
// zero.
graph::Expr dense(const std::string& name, graph::Expr x, std::int64_t units);
struct ConvOptions {
  graph::Pair window = {3, 3};
  graph::Pair strides = {1, 1};
  bool same = true;  // pads so that strides alone shrink the image; else there is no padding
  bool bias = true;
};
graph::Expr conv(const std::string& name, graph::Expr x, std::int64_t filters,
                 const ConvOptions& options);
graph::Expr flatten(graph::Expr x);
graph::Expr shrink(graph::Expr x, graph::Pair window,
                   graph::Pair strides);  // by maximum, no padding

// The mean loss and the accuracy of a classifier.
graph::Tower classify(graph::Expr logits, graph::Expr labels);

}  // namespace ferry::models
