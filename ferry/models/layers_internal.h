#pragma once

#include <string>

#include "ferry/graph/functions.h"
#include "ferry/graph/replicate.h"

namespace ferry::models {

// A variable of f32.
graph::Expr weights(graph::Builder& builder, const std::string& name,
                    std::initializer_list<std::int64_t> dims, graph::Initial initial);
// A constant of f32 whose elements are all the same.
graph::Expr filled(graph::Builder& builder, std::initializer_list<std::int64_t> dims, float value);
// The last dimension.
std::int64_t width_of(graph::Expr x);

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
// With the statistics of the batch. The shift is a variable, and so is the scale unless it is fixed
// at one.
enum class Scale { kOne, kLearned };
graph::Expr normalize(const std::string& name, graph::Expr x, Scale scale);

graph::Expr flatten(graph::Expr x);
graph::Expr shrink(graph::Expr x, graph::Pair window,
                   graph::Pair strides);        // by maximum, no padding
graph::Expr halve(graph::Expr x);               // by maximum of 3 x 3, padded
graph::Expr average_over_image(graph::Expr x);  // [N, H, W, C] -> [N, C]
graph::Expr average_around(graph::Expr x);      // of 3 x 3, as large as x

// The mean loss and the accuracy of a classifier.
graph::Tower classify(graph::Expr logits, graph::Expr labels);

}  // namespace ferry::models
