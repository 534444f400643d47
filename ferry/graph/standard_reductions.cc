#include <algorithm>

#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Many elements become one: sums, means, maxima.

namespace ferry::graph {
namespace {

using tensor::Shape;
using tensor::Spec;

// The shape of x once it is reduced.
Result<Shape> reduced_shape(const Inference& node, const Shape& x) {
  const auto reduced = FERRY_TRY(reduced_axes(node, x.rank()));
  const auto keep = FERRY_TRY(attribute_or<bool>(node, "keep", false));
  Dims dims;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!reduced[i]) dims.push_back(x.dim(i));
    if (reduced[i] && keep) dims.push_back(1);
  }
  return Shape::of(dims);
}

Inferred infer_reduction(const Inference& node) {
  FERRY_TRY(want_f32(node));
  const auto& x = node.inputs[0];
  return std::vector<Spec>{{x.type, FERRY_TRY(reduced_shape(node, x.shape))}};
}

Inferred infer_max(const Inference& node) {
  const auto& x = node.inputs[0].shape;
  const auto reduced = FERRY_TRY(reduced_axes(node, x.rank()));
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (reduced[i] && x.dim(i) == 0)
      return fail(Code::kInvalidArgument, "there is no largest of no elements, in {}",
                  x.to_string());
  return infer_reduction(node);
}

Inferred infer_max_grad(const Inference& node) {
  FERRY_TRY(want_f32(node));
  const auto& x = node.inputs[1];
  const auto y = FERRY_TRY(reduced_shape(node, x.shape));
  FERRY_TRY(shape_of_both(y, node.inputs[0].shape));
  FERRY_TRY(shape_of_both(y, node.inputs[2].shape));
  return std::vector<Spec>{x};
}

Inferred infer_arg_max(const Inference& node) {
  FERRY_TRY(want_f32(node));
  FERRY_TRY(want_rank_at_least(node, 0, 1));
  auto dims = dims_of(node.inputs[0].shape);
  if (dims.back() == 0)
    return fail(Code::kInvalidArgument, "there is no largest of no elements, in {}",
                node.inputs[0].to_string());
  dims.pop_back();
  return std::vector<Spec>{{tensor::ElementType::kI32, FERRY_TRY(Shape::of(dims))}};
}

// What flowed into a reduction, with the reduced dimensions as 1, so that it broadcasts to x.
Result<Expr> with_kept(Gradient& g) {
  const auto& x = g.input(0).spec().shape;
  const auto axes = g.attributes().get_or<Dims>("axes", {});
  const auto reduced = FERRY_TRY(reduced_axes({{}, g.attributes()}, x.rank()));
  if (g.attributes().get_or<bool>("keep", false)) return g.incoming();
  auto dims = dims_of(x);
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (reduced[i]) dims[i] = 1;
  // One unknown dimension follows from the others; for more, the shape comes from a sum.
  if (std::count(dims.begin(), dims.end(), Shape::kUnknown) > 1)
    return reshape_like(g.incoming(), sum(g.input(0), axes, true));
  return reshape(g.incoming(), dims);
}

Status sum_back(Gradient& g) {
  g.set(0, broadcast_to(FERRY_TRY(with_kept(g)), g.input(0)));
  return {};
}

// How many elements make one, if that is known.
Result<std::int64_t> reduced_count(Gradient& g) {
  const auto& x = g.input(0).spec().shape;
  const auto reduced = FERRY_TRY(reduced_axes({{}, g.attributes()}, x.rank()));
  std::int64_t count = 1;
  for (std::size_t i = 0; i < x.rank(); ++i)
    if (reduced[i]) count = FERRY_TRY(dim_product(count, x.dim(i)));
  return count;
}

Status mean_back(Gradient& g) {
  const auto kept = FERRY_TRY(with_kept(g));
  const auto count = FERRY_TRY(reduced_count(g));
  const auto axes = g.attributes().get_or<Dims>("axes", {});
  const auto share = count > 0 ? kept * (1.0 / static_cast<double>(count))
                               : kept / sum(ones_like(g.input(0)), axes, true);
  g.set(0, broadcast_to(share, g.input(0)));
  return {};
}

Status max_back(Gradient& g) {
  g.set(0, g.builder().add("MaxGrad", {g.incoming(), g.input(0), g.output()}, g.attributes()));
  return {};
}

}  // namespace

std::vector<OpDef> reduction_ops() {
  return {
      {"Sum", 1, 1, infer_reduction, sum_back}, {"Mean", 1, 1, infer_reduction, mean_back},
      {"Max", 1, 1, infer_max, max_back},       {"MaxGrad", 3, 3, infer_max_grad},
      {"ArgMax", 1, 1, infer_arg_max},
  };
}

}  // namespace ferry::graph
