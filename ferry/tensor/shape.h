#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "ferry/base/error.h"
#include "ferry/tensor/element_type.h"

namespace ferry::tensor {

// Up to 8 dimensions, outermost first. A dimension may be unknown (-1), for planning; such a shape
// has no size yet. No dimension at all is a scalar. Plain data.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;
  static constexpr std::int64_t kUnknown = -1;

  Shape() = default;  // a scalar
  // kInvalidArgument for more than 8 dimensions or one below -1; kOutOfRange if the product of the
  // known ones does not fit into 63 bits.
  static Result<Shape> of(std::span<const std::int64_t> dims);
  static Result<Shape> of(std::initializer_list<std::int64_t> dims) {
    return of(std::span(dims.begin(), dims.size()));
  }

  std::size_t rank() const { return rank_; }
  std::int64_t dim(std::size_t index) const { return dims_[index]; }
  std::span<const std::int64_t> dims() const { return {dims_.data(), rank_}; }
  bool known() const { return elements_ >= 0; }
  // How many elements; -1 while a dimension is unknown.
  std::int64_t elements() const { return elements_; }
  // Whether a tensor of the known shape `actual` is what this shape stands for.
  bool admits(const Shape& actual) const;
  std::string to_string() const;  // "[2, ?, 3]"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};  // those beyond the rank are 0
  std::uint8_t rank_ = 0;
  std::int64_t elements_ = 1;
};

// What a tensor is like: what planning knows of it.
struct Spec {
  ElementType type = ElementType::kF32;
  Shape shape;

  // kFailedPrecondition while a dimension is unknown, kOutOfRange beyond 63 bits.
  Result<std::uint64_t> bytes() const;
  bool admits(const Spec& actual) const {
    return type == actual.type && shape.admits(actual.shape);
  }
  std::string to_string() const;  // "f32[2, 3]"
  friend bool operator==(const Spec&, const Spec&) = default;
};

}  // namespace ferry::tensor
