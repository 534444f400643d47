#include "ferry/graph/functions.h"

#include <algorithm>

namespace ferry::graph {
namespace {

using Numbers = std::vector<std::int64_t>;

Expr formula(std::string_view op, const std::vector<Expr>& inputs, Attributes attributes = {}) {
  if (inputs.empty() || !inputs.front()) return {};
  return inputs.front().builder()->add(op, inputs, std::move(attributes));
}

Expr reduction(std::string_view op, Expr x, const Numbers& axes, bool keep) {
  return formula(op, {x}, {{"axes", axes}, {"keep", keep}});
}

Attributes sliding_attributes(const Sliding& sliding) {
  return {{"strides", Numbers(sliding.strides.begin(), sliding.strides.end())},
          {"pads", Numbers(sliding.pads.begin(), sliding.pads.end())}};
}

Expr pool(std::string_view op, Expr x, Pair window, const Sliding& sliding) {
  auto attributes = sliding_attributes(sliding);
  attributes.set("window", Numbers(window.begin(), window.end()));
  return formula(op, {x}, std::move(attributes));
}

// Keeps a reason why a formula cannot be made.
void refuse(Expr about, std::string reason) {
  about.builder()->note(Error(Code::kInvalidArgument, std::move(reason), 0, __FILE__, __LINE__));
}

}  // namespace

Expr operator+(Expr a, Expr b) { return formula("Add", {a, b}); }
Expr operator-(Expr a, Expr b) { return formula("Sub", {a, b}); }
Expr operator*(Expr a, Expr b) { return formula("Mul", {a, b}); }
Expr operator/(Expr a, Expr b) { return formula("Div", {a, b}); }
Expr operator-(Expr x) { return formula("Neg", {x}); }
Expr operator*(Expr x, double factor) { return formula("Scale", {x}, {{"factor", factor}}); }
Expr operator*(double factor, Expr x) { return x * factor; }
Expr maximum(Expr a, Expr b) { return formula("Maximum", {a, b}); }
Expr add_n(const std::vector<Expr>& terms) { return formula("AddN", terms); }

Expr exp(Expr x) { return formula("Exp", {x}); }
Expr log(Expr x) { return formula("Log", {x}); }
Expr sqrt(Expr x) { return formula("Sqrt", {x}); }
Expr square(Expr x) { return formula("Square", {x}); }
Expr relu(Expr x) { return formula("Relu", {x}); }
Expr sigmoid(Expr x) { return formula("Sigmoid", {x}); }
Expr tanh(Expr x) { return formula("Tanh", {x}); }
Expr dropout(Expr x, double rate, std::int64_t seed) {
  return formula("Dropout", {x}, {{"rate", rate}, {"seed", seed}});
}

Expr identity(Expr x) { return formula("Identity", {x}); }
Expr stop_gradient(Expr x) { return formula("StopGradient", {x}); }
Expr zeros_like(Expr x) { return formula("ZerosLike", {x}); }
Expr ones_like(Expr x) { return formula("OnesLike", {x}); }
Expr cast(Expr x, tensor::ElementType type) { return formula("Cast", {x}, {{"type", type}}); }

Expr reshape(Expr x, const Numbers& dims) {
  auto shape = tensor::Shape::of(dims);
  if (shape) return formula("Reshape", {x}, {{"shape", *shape}});
  if (x) x.builder()->note(std::move(shape).error());
  return {};
}

Expr reshape_like(Expr x, Expr like) { return formula("ReshapeLike", {x, like}); }
Expr sum_to(Expr x, Expr like) { return formula("SumTo", {x, like}); }
Expr broadcast_to(Expr x, Expr like) { return formula("BroadcastTo", {x, like}); }
Expr transpose(Expr x, const Numbers& order) {
  return formula("Transpose", {x}, {{"order", order}});
}
Expr concat(const std::vector<Expr>& parts, std::int64_t axis) {
  return formula("Concat", parts, {{"axis", axis}});
}
Expr slice(Expr x, const Numbers& begin, const Numbers& size) {
  return formula("Slice", {x}, {{"begin", begin}, {"size", size}});
}

Expr sum(Expr x, const Numbers& axes, bool keep) { return reduction("Sum", x, axes, keep); }
Expr mean(Expr x, const Numbers& axes, bool keep) { return reduction("Mean", x, axes, keep); }
Expr max(Expr x, const Numbers& axes, bool keep) { return reduction("Max", x, axes, keep); }
Expr arg_max(Expr x) { return formula("ArgMax", {x}); }

Expr matmul(Expr a, Expr b, bool transpose_a, bool transpose_b) {
  return formula("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Pads same_pads(Expr x, Pair window, Pair strides) {
  Pads pads{};
  if (!x) return pads;
  const auto& shape = x.spec().shape;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (shape.rank() != 4 || shape.dim(axis + 1) < 1 || strides[axis] < 1 || window[axis] < 1) {
      refuse(x, fmt::format("there are no pads for windows of {} x {} in steps of {} x {} over {}",
                            window[0], window[1], strides[0], strides[1], shape.to_string()));
      return {};
    }
    // The last window begins at a multiple of the stride and may end beyond the image.
    const auto last = (shape.dim(axis + 1) - 1) / strides[axis] * strides[axis];
    const auto left_over = shape.dim(axis + 1) - last;
    const auto all = std::max<std::int64_t>(window[axis] - left_over, 0);
    pads.at(axis) = all / 2;
    pads.at(axis + 2) = all - all / 2;
  }
  return pads;
}

Expr conv2d(Expr x, Expr w, const Sliding& sliding) {
  return formula("Conv2D", {x, w}, sliding_attributes(sliding));
}
Expr max_pool(Expr x, Pair window, const Sliding& sliding) {
  return pool("MaxPool", x, window, sliding);
}
Expr avg_pool(Expr x, Pair window, const Sliding& sliding) {
  return pool("AvgPool", x, window, sliding);
}
Expr batch_norm(Expr x, Expr scale, Expr shift, double epsilon) {
  return formula("BatchNorm", {x, scale, shift}, {{"epsilon", epsilon}});
}
Expr batch_norm_apply(Expr x, Expr scale, Expr shift, Expr mean, Expr variance, double epsilon) {
  return formula("BatchNormApply", {x, scale, shift, mean, variance}, {{"epsilon", epsilon}});
}
Expr lrn(Expr x, const LrnOptions& options) {
  return formula("Lrn", {x},
                 {{"size", options.size},
                  {"alpha", options.alpha},
                  {"beta", options.beta},
                  {"bias", options.bias}});
}

Expr softmax(Expr x) { return formula("Softmax", {x}); }
Expr softmax_cross_entropy(Expr logits, Expr labels) {
  return formula("SoftmaxCrossEntropy", {logits, labels});
}
Expr accuracy(Expr logits, Expr labels) { return formula("Accuracy", {logits, labels}); }
Expr embedding(Expr table, Expr ids) { return formula("Embedding", {table, ids}); }

LstmState lstm_cell(Expr x, const LstmState& state, Expr w, Expr b) {
  const auto cell = formula("LstmCell", {x, state.h, state.c, w, b});
  return {cell, cell.at(1)};
}
Expr gru_cell(Expr x, Expr h, Expr w, Expr b) { return formula("GruCell", {x, h, w, b}); }
Expr lstm(Expr x, const LstmState& first, Expr w, Expr b) {
  return formula("Lstm", {x, first.h, first.c, w, b});
}
Expr gru(Expr x, Expr first, Expr w, Expr b) { return formula("Gru", {x, first, w, b}); }

}  // namespace ferry::graph
