#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ferry/base/error.h"
#include "ferry/tensor/shape.h"

namespace ferry::tensor {

// Element type, shape, and a share in the buffer that holds the elements, row by row without gaps.
// Copies share the buffer. Two tensors may look at parts of one buffer. Not thread-safe itself; the
// bytes are their users'.
class Tensor {
 public:
  Tensor() = default;  // of no elements

  // Over memory that `share` keeps alive (null: somebody else does). kInvalidArgument unless the
  // bytes are exactly the tensor's, and aligned to its elements.
  static Result<Tensor> over(const Spec& spec, std::span<std::byte> bytes,
                             std::shared_ptr<void> share = nullptr);

  const Spec& spec() const { return spec_; }
  ElementType type() const { return spec_.type; }
  const Shape& shape() const { return spec_.shape; }
  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  const std::shared_ptr<void>& share() const { return share_; }

  // The elements as T, whose size must be the element's: the caller knows what T stands for.
  template <class T>
  std::span<T> elements() const {
    FERRY_ASSERT(sizeof(T) == size_of(spec_.type), "T has the size of an element");
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  // The same elements under another shape.
  Result<Tensor> reshape(const Shape& shape) const;
  // Rows [begin, end) of the outermost dimension.
  Result<Tensor> rows(std::int64_t begin, std::int64_t end) const;

 private:
  Spec spec_{ElementType::kU8, {}};
  std::span<std::byte> bytes_;
  std::shared_ptr<void> share_;
};

}  // namespace ferry::tensor
