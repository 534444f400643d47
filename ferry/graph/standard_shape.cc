#include "ferry/graph/functions.h"
#include "ferry/graph/gradient.h"
#include "ferry/graph/shapes_internal.h"
#include "ferry/graph/standard_internal.h"

// Elements in other places: of any type.

namespace ferry::graph {
namespace {

using tensor::Shape;
using tensor::Spec;

Inferred infer_transpose(const Inference& node) {
  const auto order = FERRY_TRY(attribute<Dims>(node, "order"));
  const auto& x = node.inputs[0];
  std::vector<bool> seen(x.shape.rank());
  Dims dims;
  for (const auto from : order) {
    if (from < 0 || from >= static_cast<std::int64_t>(seen.size()) ||
        seen[static_cast<std::size_t>(from)])
      break;
    seen[static_cast<std::size_t>(from)] = true;
    dims.push_back(x.shape.dim(static_cast<std::size_t>(from)));
  }
  if (order.size() != seen.size() || dims.size() != seen.size())
    return fail(Code::kInvalidArgument, "the order [{}] does not name each dimension of {} once",
                fmt::join(order.begin(), order.end(), ", "), x.to_string());
  return std::vector<Spec>{{x.type, FERRY_TRY(Shape::of(dims))}};
}

Inferred infer_concat(const Inference& node) {
  const auto& first = node.inputs[0];
  const auto given = FERRY_TRY(attribute<std::int64_t>(node, "axis"));
  const auto axis = FERRY_TRY(axis_of(given, first.shape.rank()));
  auto dims = dims_of(first.shape);
  for (std::size_t input = 1; input < node.inputs.size(); ++input) {
    const auto& next = node.inputs[input];
    bool fit = next.type == first.type && next.shape.rank() == dims.size();
    for (std::size_t i = 0; fit && i < dims.size(); ++i) {
      if (i == axis) continue;
      fit = dims_agree(dims[i], next.shape.dim(i));
      dims[i] = dim_of_both(dims[i], next.shape.dim(i));
    }
    if (!fit)
      return fail(Code::kInvalidArgument, "{} and {} cannot be joined along axis {}",
                  first.to_string(), next.to_string(), axis);
    dims[axis] = FERRY_TRY(dim_sum(dims[axis], next.shape.dim(axis)));
  }
  return std::vector<Spec>{{first.type, FERRY_TRY(Shape::of(dims))}};
}

// The length of one dimension of a slice. The caller has seen that begin >= 0 and size >= -1.
bool slice_dim(std::int64_t& dim, std::int64_t begin, std::int64_t size) {
  const bool known = dim != Shape::kUnknown;
  if (known && (begin > dim || size > dim - begin)) return false;
  if (known && size < 0) dim -= begin;
  if (size >= 0) dim = size;
  return true;
}

Inferred infer_slice(const Inference& node) {
  const auto begin = FERRY_TRY(attribute<Dims>(node, "begin"));
  const auto size = FERRY_TRY(attribute<Dims>(node, "size"));
  const auto& x = node.inputs[0];
  auto dims = dims_of(x.shape);
  bool fit = begin.size() == dims.size() && size.size() == dims.size();
  for (std::size_t i = 0; fit && i < dims.size(); ++i)
    fit = begin[i] >= 0 && size[i] >= -1 && slice_dim(dims[i], begin[i], size[i]);
  if (!fit)
    return fail(Code::kInvalidArgument, "there is no part of {} that begins at [{}] and is [{}]",
                x.to_string(), fmt::join(begin.begin(), begin.end(), ", "),
                fmt::join(size.begin(), size.end(), ", "));
  return std::vector<Spec>{{x.type, FERRY_TRY(Shape::of(dims))}};
}

Inferred infer_slice_grad(const Inference& node) {
  const auto begin = FERRY_TRY(attribute<Dims>(node, "begin"));
  const auto& part = node.inputs[0];
  const auto& whole = node.inputs[1];
  const auto rank = whole.shape.rank();
  bool fit = begin.size() == rank && part.shape.rank() == rank && part.type == whole.type;
  for (std::size_t i = 0; fit && i < rank; ++i) {
    auto dim = whole.shape.dim(i);
    fit = begin[i] >= 0 && slice_dim(dim, begin[i], part.shape.dim(i));
  }
  if (!fit)
    return fail(Code::kInvalidArgument, "{} at [{}] is not inside of {}", part.to_string(),
                fmt::join(begin.begin(), begin.end(), ", "), whole.to_string());
  return std::vector<Spec>{whole};
}

Status transpose_back(Gradient& g) {
  const auto order = FERRY_TRY(g.attributes().get<Dims>("order"));
  Dims inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse.at(static_cast<std::size_t>(order[i])) = static_cast<std::int64_t>(i);
  g.set(0, transpose(g.incoming(), inverse));
  return {};
}

// Each input gets its part back; where the parts begin must be known.
Status concat_back(Gradient& g) {
  const auto rank = g.output().spec().shape.rank();
  const auto given = FERRY_TRY(g.attributes().get<std::int64_t>("axis"));
  const auto axis = FERRY_TRY(axis_of(given, rank));
  Dims begin(rank, 0);
  for (std::size_t i = 0; i < g.inputs(); ++i) {
    Dims size(rank, -1);
    size[axis] = g.input(i).spec().shape.dim(axis);
    const bool last = i + 1 == g.inputs();
    if (size[axis] == Shape::kUnknown && !last)
      return fail(Code::kUnimplemented,
                  "no gradient flows back through Concat along a dimension that is unknown in {}",
                  g.input(i).spec().to_string());
    if (g.wants(i)) g.set(i, slice(g.incoming(), begin, size));
    begin[axis] += last ? 0 : size[axis];
  }
  return {};
}

Status slice_back(Gradient& g) {
  const auto begin = FERRY_TRY(g.attributes().get<Dims>("begin"));
  g.set(0, g.builder().add("SliceGrad", {g.incoming(), g.input(0)}, {{"begin", begin}}));
  return {};
}

}  // namespace

std::vector<OpDef> shape_ops() {
  return {
      {"Transpose", 1, 1, infer_transpose, transpose_back},
      {"Concat", 1, OpDef::kAnyNumber, infer_concat, concat_back},
      {"Slice", 1, 1, infer_slice, slice_back},
      {"SliceGrad", 2, 2, infer_slice_grad},
  };
}

}  // namespace ferry::graph
