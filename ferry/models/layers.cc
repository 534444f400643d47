#include "ferry/models/layers_internal.h"

namespace ferry::models {

using graph::Expr;
using graph::Initial;

namespace {

Expr weights(Expr beside, const std::string& name, std::initializer_list<std::int64_t> dims,
             Initial initial) {
  auto shape = tensor::Shape::of(dims);
  if (!shape) {
    beside.builder()->note(shape.error());
    return {};
  }
  return beside.builder()->variable(name, {tensor::ElementType::kF32, *shape}, initial);
}

std::int64_t last_dim(Expr x) {
  const auto dims = x.spec().shape.dims();
  return dims.empty() ? 1 : dims.back();
}

}  // namespace

Expr dense(const std::string& name, Expr x, std::int64_t units) {
  if (!x) return {};
  const auto w = weights(x, name + "/w", {last_dim(x), units}, {Initial::Kind::kGlorot});
  return matmul(x, w) + weights(x, name + "/b", {units}, {});
}

Expr conv(const std::string& name, Expr x, std::int64_t filters, const ConvOptions& options) {
  if (!x) return {};
  const auto w =
      weights(x, name + "/w", {options.window[0], options.window[1], last_dim(x), filters},
              {Initial::Kind::kHe});
  graph::Sliding sliding{.strides = options.strides};
  if (options.same) sliding.pads = same_pads(x, options.window, options.strides);
  const auto y = conv2d(x, w, sliding);
  return options.bias ? y + weights(x, name + "/b", {filters}, {}) : y;
}

Expr flatten(Expr x) {
  if (!x) return {};
  std::int64_t rest = 1;
  for (const auto dim : x.spec().shape.dims().subspan(1)) rest *= dim;
  return reshape(x, {-1, rest});
}

Expr shrink(Expr x, graph::Pair window, graph::Pair strides) {
  return max_pool(x, window, {.strides = strides});
}

graph::Tower classify(Expr logits, Expr labels) {
  return {.loss = mean(softmax_cross_entropy(logits, labels)),
          .metrics = {{"accuracy", accuracy(logits, labels)}}};
}

}  // namespace ferry::models
