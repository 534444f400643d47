#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "ferry/graph/op.h"

namespace ferry::graph {

// What the shape functions of the standard operators share. All failures are kInvalidArgument or
// kOutOfRange, and name the shapes that do not fit.

using Inferred = Result<std::vector<tensor::Spec>>;
using Dims = std::vector<std::int64_t>;

// Shape functions look at every attribute of their operator, so that kernels need not.
// kInvalidArgument if there is none of that name, or one of another kind.
template <class T>
Result<T> attribute(const Inference& node, std::string_view name) {
  if (!node.attributes.has(name))
    return fail(Code::kInvalidArgument, "there is no attribute '{}'", name);
  return node.attributes.get<T>(name);
}
// The same with a fallback where there is none.
template <class T>
Result<T> attribute_or(const Inference& node, std::string_view name, T fallback) {
  if (!node.attributes.has(name)) return fallback;
  return node.attributes.get<T>(name);
}

// A tensor of f32.
Result<tensor::Spec> f32_of(const Dims& dims);
Dims dims_of(const tensor::Shape& shape);

// Whether two dimensions may be one number, and that number as far as it is known.
bool dims_agree(std::int64_t a, std::int64_t b);
std::int64_t dim_of_both(std::int64_t a, std::int64_t b);
// With unknown dimensions the result is unknown.
Result<std::int64_t> dim_sum(std::int64_t a, std::int64_t b);
Result<std::int64_t> dim_product(std::int64_t a, std::int64_t b);

// The shape that both are, as far as it is known.
Result<tensor::Shape> shape_of_both(const tensor::Shape& a, const tensor::Shape& b);
// As numpy has it: aligned at the last dimension, and a 1 becomes what it meets.
Result<tensor::Shape> broadcast_shape(const tensor::Shape& a, const tensor::Shape& b);

Status want_type(const Inference& node, std::size_t input, tensor::ElementType type);
Status want_f32(const Inference& node);  // all inputs
Status want_rank_at_least(const Inference& node, std::size_t input, std::size_t rank);

// An axis that counts from the end becomes one that counts from the front.
Result<std::size_t> axis_of(std::int64_t axis, std::size_t rank);
// Which dimensions are reduced, by the attribute `axes`; all of them where it is empty.
Result<std::vector<bool>> reduced_axes(const Inference& node, std::size_t rank);

// Dimensions by letters, as in "x [N, I], w [I, O]": each letter stands for one number.
class Letters {
 public:
  explicit Letters(const Inference& node) : node_(node) {}

  // The input is f32 of the rank of the letters, and its dimensions are what those letters were in
  // inputs before.
  Status match(std::size_t input, std::string_view letters);
  // The same for an input of another type.
  Status match(std::size_t input, std::string_view letters, tensor::ElementType type);
  std::int64_t operator[](char letter) const { return known_.at(letter).dim; }
  // A letter that follows from others, such as G = 4 H. `why` is that formula.
  Status set(char letter, std::int64_t dim, std::string_view why);

 private:
  struct Known {
    std::int64_t dim = tensor::Shape::kUnknown;
    std::string from;  // what has said so
  };
  const Inference& node_;
  std::map<char, Known> known_;
};

// A window that slides over rows and columns, as the attributes of a convolution or a pool say.
struct Sliding2d {
  std::array<std::int64_t, 2> strides{};
  std::array<std::int64_t, 4> pads{};  // top, left, bottom, right
};
Result<Sliding2d> sliding_of(const Inference& node);
// The attribute `window`: rows and columns, at least 1 of each.
Result<std::array<std::int64_t, 2>> window_of(const Inference& node);
// How many places a window has over `in` rows (axis 0) or columns (axis 1); unknown if either is.
Result<std::int64_t> places_of(const Sliding2d& sliding, std::size_t axis, std::int64_t in,
                               std::int64_t window);

}  // namespace ferry::graph
