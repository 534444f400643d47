#include <algorithm>
#include <limits>

#include "ferry/graph/shapes_internal.h"

namespace ferry::graph {

using tensor::Shape;

Result<tensor::Spec> f32_of(const Dims& dims) {
  return tensor::Spec{tensor::ElementType::kF32, FERRY_TRY(Shape::of(dims))};
}

Dims dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

bool dims_agree(std::int64_t a, std::int64_t b) {
  return a == b || a == Shape::kUnknown || b == Shape::kUnknown;
}

std::int64_t dim_of_both(std::int64_t a, std::int64_t b) { return a == Shape::kUnknown ? b : a; }

Result<std::int64_t> dim_sum(std::int64_t a, std::int64_t b) {
  if (a == Shape::kUnknown || b == Shape::kUnknown) return Shape::kUnknown;
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    return fail(Code::kOutOfRange, "{} + {} is more than a dimension can be", a, b);
  return sum;
}

Result<std::int64_t> dim_product(std::int64_t a, std::int64_t b) {
  if (a == Shape::kUnknown || b == Shape::kUnknown) return Shape::kUnknown;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    return fail(Code::kOutOfRange, "{} * {} is more than a dimension can be", a, b);
  return product;
}

Result<Shape> shape_of_both(const Shape& a, const Shape& b) {
  auto dims = dims_of(a);
  bool fit = a.rank() == b.rank();
  for (std::size_t i = 0; fit && i < dims.size(); ++i) {
    fit = dims_agree(a.dim(i), b.dim(i));
    dims[i] = dim_of_both(a.dim(i), b.dim(i));
  }
  if (!fit)
    return fail(Code::kInvalidArgument, "{} and {} should be one shape", a.to_string(),
                b.to_string());
  return Shape::of(dims);
}

Result<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const auto& longer = a.rank() >= b.rank() ? a : b;
  const auto& shorter = a.rank() >= b.rank() ? b : a;
  auto dims = dims_of(longer);
  const auto skip = longer.rank() - shorter.rank();
  for (std::size_t i = 0; i < shorter.rank(); ++i) {
    auto& dim = dims[skip + i];
    const auto other = shorter.dim(i);
    if (dim != 1 && other != 1 && !dims_agree(dim, other))
      return fail(Code::kInvalidArgument, "{} and {} cannot be broadcast to one shape",
                  a.to_string(), b.to_string());
    // An unknown one beside a 1 stays unknown; beside anything else it is that, or a 1.
    dim = dim == 1 ? other : other == 1 ? dim : dim_of_both(dim, other);
  }
  return Shape::of(dims);
}

Status want_type(const Inference& node, std::size_t input, tensor::ElementType type) {
  const auto& spec = node.inputs[input];
  if (spec.type != type)
    return fail(Code::kInvalidArgument, "input {} is {}, and should be {}", input, spec.to_string(),
                tensor::name_of(type));
  return {};
}

Status want_f32(const Inference& node) {
  for (std::size_t input = 0; input < node.inputs.size(); ++input)
    FERRY_TRY(want_type(node, input, tensor::ElementType::kF32));
  return {};
}

Status want_rank_at_least(const Inference& node, std::size_t input, std::size_t rank) {
  const auto& spec = node.inputs[input];
  if (spec.shape.rank() < rank)
    return fail(Code::kInvalidArgument, "input {} is {}, and should have {} dimensions or more",
                input, spec.to_string(), rank);
  return {};
}

Result<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count)
    return fail(Code::kInvalidArgument, "there is no axis {} in {} dimensions", axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

Result<std::vector<bool>> reduced_axes(const Inference& node, std::size_t rank) {
  const auto axes = FERRY_TRY(attribute_or<Dims>(node, "axes", {}));
  std::vector<bool> reduced(rank, axes.empty());
  for (const auto axis : axes) {
    const auto at = FERRY_TRY(axis_of(axis, rank));
    if (reduced[at]) return fail(Code::kInvalidArgument, "axis {} is named twice", axis);
    reduced[at] = true;
  }
  return reduced;
}

Status Letters::match(std::size_t input, std::string_view letters) {
  return match(input, letters, tensor::ElementType::kF32);
}

Status Letters::match(std::size_t input, std::string_view letters, tensor::ElementType type) {
  FERRY_TRY(want_type(node_, input, type));
  const auto& spec = node_.inputs[input];
  if (spec.shape.rank() != letters.size())
    return fail(Code::kInvalidArgument, "input {} is {}, and should be [{}]", input,
                spec.to_string(), fmt::join(letters.begin(), letters.end(), ", "));
  for (std::size_t i = 0; i < letters.size(); ++i)
    FERRY_TRY(
        set(letters[i], spec.shape.dim(i), fmt::format("{} (input {})", spec.to_string(), input)));
  return {};
}

Status Letters::set(char letter, std::int64_t dim, std::string_view why) {
  auto& known = known_[letter];
  if (!dims_agree(known.dim, dim))
    return fail(Code::kInvalidArgument, "{} should be one number, and is {} in {} and {} in {}",
                letter, known.dim, known.from, dim, why);
  if (known.dim == Shape::kUnknown) known = {dim, std::string(why)};
  return {};
}

namespace {

// A list of exactly N numbers, none below `least`.
template <std::size_t N>
Result<std::array<std::int64_t, N>> numbers_of(const Inference& node, std::string_view name,
                                               std::int64_t least, std::int64_t fallback) {
  const auto given = FERRY_TRY(attribute_or<Dims>(node, name, Dims(N, fallback)));
  if (given.size() != N || *std::min_element(given.begin(), given.end()) < least)
    return fail(Code::kInvalidArgument, "'{}' is {} numbers of at least {}, not [{}]", name, N,
                least, fmt::join(given.begin(), given.end(), ", "));
  std::array<std::int64_t, N> numbers{};
  std::copy(given.begin(), given.end(), numbers.begin());
  return numbers;
}

}  // namespace

Result<Sliding2d> sliding_of(const Inference& node) {
  return Sliding2d{FERRY_TRY(numbers_of<2>(node, "strides", 1, 1)),
                   FERRY_TRY(numbers_of<4>(node, "pads", 0, 0))};
}

Result<std::array<std::int64_t, 2>> window_of(const Inference& node) {
  return numbers_of<2>(node, "window", 1, 0);
}

Result<std::int64_t> places_of(const Sliding2d& sliding, std::size_t axis, std::int64_t in,
                               std::int64_t window) {
  const auto pad = FERRY_TRY(dim_sum(sliding.pads[axis], sliding.pads[axis + 2]));
  const auto padded = FERRY_TRY(dim_sum(in, pad));
  if (in == Shape::kUnknown || window == Shape::kUnknown) return Shape::kUnknown;
  if (in < 1 || window < 1 || padded < window)
    return fail(Code::kInvalidArgument, "a window of {} does not fit into {} {} and {} of padding",
                window, in, axis == 0 ? "rows" : "columns", pad);
  return (padded - window) / sliding.strides[axis] + 1;
}

}  // namespace ferry::graph
