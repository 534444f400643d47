#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ferry/tensor/element_type.h"

namespace ferry::ps {

// f32 from a narrow type, and back.
void widen(tensor::ElementType type, const std::byte* from, float* to, std::uint64_t count);
void narrow(tensor::ElementType type, const float* from, std::byte* to, std::uint64_t count);

// Adds gradients of one element type to sums in f32. One thread at a time.
class GradientSum {
 public:
  explicit GradientSum(tensor::ElementType type) : type_(type) {}
  // `first`: the sum becomes the gradient, whatever it was.
  void add(float* sum, bool first, const std::byte* gradient, std::uint64_t count);

 private:
  tensor::ElementType type_;
  std::vector<float> widened_;
};

}  // namespace ferry::ps
