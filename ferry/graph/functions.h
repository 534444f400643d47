#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ferry/graph/builder.h"

namespace ferry::graph {

// Formulas: auto h = relu(matmul(x, w) + b). Each adds a node to the builder of its first argument;
// shapes and attributes are those of docs/design/operators.md. What is made from nothing is
// nothing, and what does not fit is in the builder's status.

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr x);
Expr operator*(Expr x, double factor);
Expr operator*(double factor, Expr x);
Expr maximum(Expr a, Expr b);
Expr add_n(const std::vector<Expr>& terms);  // from the first to the last

Expr exp(Expr x);
Expr log(Expr x);
Expr sqrt(Expr x);
Expr square(Expr x);
Expr relu(Expr x);
Expr sigmoid(Expr x);
Expr tanh(Expr x);
// Zeroes elements with probability `rate`, and scales the others up; other ones in each step.
Expr dropout(Expr x, double rate, std::int64_t seed);

Expr identity(Expr x);
Expr stop_gradient(Expr x);
Expr zeros_like(Expr x);
Expr ones_like(Expr x);
Expr cast(Expr x, tensor::ElementType type);
Expr reshape(Expr x, const std::vector<std::int64_t>& dims);  // one of them may be -1
Expr reshape_like(Expr x, Expr like);
Expr sum_to(Expr x, Expr like);
Expr broadcast_to(Expr x, Expr like);
Expr transpose(Expr x, const std::vector<std::int64_t>& order);
Expr concat(const std::vector<Expr>& parts, std::int64_t axis);
Expr slice(Expr x, const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& size);

// No axes: all of them. `keep`: what is reduced stays as a dimension of 1.
Expr sum(Expr x, const std::vector<std::int64_t>& axes = {}, bool keep = false);
Expr mean(Expr x, const std::vector<std::int64_t>& axes = {}, bool keep = false);
Expr max(Expr x, const std::vector<std::int64_t>& axes = {}, bool keep = false);
Expr arg_max(Expr x);  // i32, along the last axis

Expr matmul(Expr a, Expr b, bool transpose_a = false, bool transpose_b = false);

using Pair = std::array<std::int64_t, 2>;  // rows, columns
using Pads = std::array<std::int64_t, 4>;  // top, left, bottom, right
struct Sliding {
  Pair strides = {1, 1};
  Pads pads = {};
};
// Pads with which n rows become ceil(n / stride), the odd one below and to the right. An image
// whose rows or columns are unknown is kInvalidArgument.
Pads same_pads(Expr x, Pair window, Pair strides = {1, 1});

Expr conv2d(Expr x, Expr w, const Sliding& sliding = {});
Expr max_pool(Expr x, Pair window, const Sliding& sliding);
Expr avg_pool(Expr x, Pair window, const Sliding& sliding);
// Output 0; at(1) and at(2) are the mean and the variance of this batch.
Expr batch_norm(Expr x, Expr scale, Expr shift, double epsilon = 1e-5);
Expr batch_norm_apply(Expr x, Expr scale, Expr shift, Expr mean, Expr variance,
                      double epsilon = 1e-5);
struct LrnOptions {
  std::int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};
Expr lrn(Expr x, const LrnOptions& options = {});

Expr softmax(Expr x);
// The loss of each row; its mean is what one trains on.
Expr softmax_cross_entropy(Expr logits, Expr labels);
Expr accuracy(Expr logits, Expr labels);
Expr embedding(Expr table, Expr ids);

struct LstmState {
  Expr h;
  Expr c;
};
LstmState lstm_cell(Expr x, const LstmState& state, Expr w, Expr b);
Expr gru_cell(Expr x, Expr h, Expr w, Expr b);
// A whole sequence x [T, N, I]: h after each step. Of lstm(), at(1) is c after each step, which
// gradients do not flow through.
Expr lstm(Expr x, const LstmState& first, Expr w, Expr b);
Expr gru(Expr x, Expr first, Expr w, Expr b);

}  // namespace ferry::graph
