#include "ferry/tensor/shape.h"

#include <algorithm>
#include <limits>

namespace ferry::tensor {

Result<Shape> Shape::of(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank)
    return fail(Code::kInvalidArgument, "a tensor has {} dimensions at most, not {}", kMaxRank,
                dims.size());
  Shape shape;
  shape.rank_ = static_cast<std::uint8_t>(dims.size());
  bool known = true;
  std::int64_t product = 1;
  bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    auto dim = dims[i];
    if (dim < kUnknown)
      return fail(Code::kInvalidArgument, "dimension {} of a shape is {}; it is at least 0, or {}",
                  i, dim, kUnknown);
    shape.dims_[i] = dim;
    known = known && dim != kUnknown;
    if (dim <= 0 || empty) continue;
    if (product > std::numeric_limits<std::int64_t>::max() / dim)
      return fail(Code::kOutOfRange, "a shape of [{}] has more than 2^63 elements",
                  fmt::join(dims.begin(), dims.end(), ", "));
    product *= dim;
  }
  shape.elements_ = !known ? kUnknown : empty ? 0 : product;
  return shape;
}

bool Shape::admits(const Shape& actual) const {
  if (rank_ != actual.rank_ || !actual.known()) return false;
  for (std::size_t i = 0; i < rank_; ++i)
    if (dims_[i] != kUnknown && dims_[i] != actual.dims_[i]) return false;
  return true;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (std::size_t i = 0; i < rank_; ++i)
    text += (i == 0 ? "" : ", ") + (dims_[i] == kUnknown ? "?" : std::to_string(dims_[i]));
  return text + "]";
}

Result<std::uint64_t> Spec::bytes() const {
  if (!shape.known())
    return fail(Code::kFailedPrecondition, "the shape {} has no size yet", shape.to_string());
  auto elements = static_cast<std::uint64_t>(shape.elements());
  auto size = size_of(type);
  if (size != 0 && elements > (std::numeric_limits<std::uint64_t>::max() >> 1) / size)
    return fail(Code::kOutOfRange, "{} is larger than 2^63 bytes", to_string());
  return elements * size;
}

std::string Spec::to_string() const { return std::string(name_of(type)) + shape.to_string(); }

}  // namespace ferry::tensor
