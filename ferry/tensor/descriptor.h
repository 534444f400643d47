#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "ferry/tensor/shape.h"

namespace ferry::tensor {

// A Spec as bytes, for peers: little-endian, the same on every machine (docs/wire/tensor.md).
//
//   0   u8      element type
//   1   u8      rank
//   2   u8 x 6  0
//   8   i64 x 8 dimensions, -1 unknown; those beyond the rank 0
constexpr std::size_t kDescriptorBytes = 72;
using DescriptorBytes = std::array<std::byte, kDescriptorBytes>;

DescriptorBytes to_wire(const Spec& spec);
// From bytes that cannot be trusted: kInvalidArgument or kOutOfRange unless they are what to_wire()
// makes.
Result<Spec> spec_from_wire(std::span<const std::byte> wire);

}  // namespace ferry::tensor
