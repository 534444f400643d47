#include "ferry/ops/walk_internal.h"

namespace ferry::ops {

Steps steps_of(const tensor::Shape& shape) {
  Steps steps{};
  std::int64_t step = 1;
  for (auto axis = shape.rank(); axis-- > 0;) {
    steps[axis] = step;
    step *= shape.dim(axis);
  }
  return steps;
}

Steps broadcast_steps(const tensor::Shape& shape, std::size_t rank) {
  FERRY_ASSERT(shape.rank() <= rank, "a tensor is broadcast to as many dimensions or more");
  const auto own = steps_of(shape);
  const auto missing = rank - shape.rank();
  Steps steps{};
  for (std::size_t axis = 0; axis < shape.rank(); ++axis)
    steps[axis + missing] = shape.dim(axis) == 1 ? 0 : own[axis];
  return steps;
}

}  // namespace ferry::ops
