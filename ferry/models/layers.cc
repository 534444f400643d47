#include <algorithm>

#include "ferry/models/layers_internal.h"

namespace ferry::models {

using graph::Builder;
using graph::Expr;
using graph::Initial;
using graph::Pair;

Expr weights(Builder& builder, const std::string& name, std::initializer_list<std::int64_t> dims,
             Initial initial) {
  auto shape = tensor::Shape::of(dims);
  if (!shape) {
    builder.note(shape.error());
    return {};
  }
  return builder.variable(name, {tensor::ElementType::kF32, *shape}, initial);
}

Expr filled(Builder& builder, std::initializer_list<std::int64_t> dims, float value) {
  const auto shape = tensor::Shape::of(dims);
  FERRY_ASSERT(shape.has_value() && shape->known(), "a constant of a known size");
  auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape->elements()));
  std::fill(values->begin(), values->end(), value);
  const auto bytes = std::as_writable_bytes(std::span(*values));
  return builder.constant(
      *tensor::Tensor::over({tensor::ElementType::kF32, *shape}, bytes, values));
}

std::int64_t width_of(Expr x) {
  const auto dims = x.spec().shape.dims();
  return dims.empty() ? 1 : dims.back();
}

Expr dense(const std::string& name, Expr x, std::int64_t units) {
  if (!x) return {};
  auto& builder = *x.builder();
  const auto w = weights(builder, name + "/w", {width_of(x), units}, {Initial::Kind::kGlorot});
  return matmul(x, w) + weights(builder, name + "/b", {units}, {});
}

Expr conv(const std::string& name, Expr x, std::int64_t filters, const ConvOptions& options) {
  if (!x) return {};
  auto& builder = *x.builder();
  const auto w =
      weights(builder, name + "/w", {options.window[0], options.window[1], width_of(x), filters},
              {Initial::Kind::kHe});
  graph::Sliding sliding{.strides = options.strides};
  if (options.same) sliding.pads = same_pads(x, options.window, options.strides);
  const auto y = conv2d(x, w, sliding);
  return options.bias ? y + weights(builder, name + "/b", {filters}, {}) : y;
}

Expr normalize(const std::string& name, Expr x, Scale scale) {
  if (!x) return {};
  auto& builder = *x.builder();
  const auto width = width_of(x);
  const auto by = scale == Scale::kOne
                      ? filled(builder, {width}, 1)
                      : weights(builder, name + "/scale", {width}, {Initial::Kind::kConstant, 1});
  return batch_norm(x, by, weights(builder, name + "/shift", {width}, {}));
}

Expr flatten(Expr x) {
  if (!x) return {};
  std::int64_t rest = 1;
  for (const auto dim : x.spec().shape.dims().subspan(1)) rest *= dim;
  return reshape(x, {-1, rest});
}

Expr shrink(Expr x, Pair window, Pair strides) { return max_pool(x, window, {.strides = strides}); }

Expr halve(Expr x) {
  return max_pool(x, {3, 3}, {.strides = {2, 2}, .pads = same_pads(x, {3, 3}, {2, 2})});
}

Expr average_over_image(Expr x) { return mean(x, {1, 2}); }

Expr average_around(Expr x) { return avg_pool(x, {3, 3}, {.pads = same_pads(x, {3, 3})}); }

graph::Tower classify(Expr logits, Expr labels) {
  return {.loss = mean(softmax_cross_entropy(logits, labels)),
          .metrics = {{"accuracy", accuracy(logits, labels)}}};
}

}  // namespace ferry::models
