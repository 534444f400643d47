#include "ferry/tensor/descriptor.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ferry::tensor {

namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr std::size_t kZeros = 2;
constexpr std::size_t kDims = 8;

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

DescriptorBytes to_wire(const Spec& spec) {
  DescriptorBytes wire{};
  wire[0] = static_cast<std::byte>(spec.type);
  wire[1] = static_cast<std::byte>(spec.shape.rank());
  auto dims = spec.shape.dims();
  if (!dims.empty()) std::memcpy(wire.data() + kDims, dims.data(), dims.size_bytes());
  return wire;
}

Result<Spec> spec_from_wire(std::span<const std::byte> wire) {
  if (wire.size() != kDescriptorBytes)
    return fail(Code::kInvalidArgument, "a tensor's descriptor has {} bytes, not {}",
                kDescriptorBytes, wire.size());
  Spec spec;
  spec.type = FERRY_TRY(element_type_of(static_cast<std::uint8_t>(wire[0])));
  auto rank = static_cast<std::size_t>(wire[1]);
  if (rank > Shape::kMaxRank)
    return fail(Code::kInvalidArgument, "a descriptor with {} dimensions; {} is the most", rank,
                Shape::kMaxRank);
  if (!all_zero(wire.subspan(kZeros, kDims - kZeros)) || !all_zero(wire.subspan(kDims + rank * 8)))
    return fail(Code::kInvalidArgument, "a descriptor with bits that mean nothing");
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  std::memcpy(dims.data(), wire.data() + kDims, rank * 8);
  spec.shape = FERRY_TRY(Shape::of(std::span(dims).first(rank)));
  return spec;
}

}  // namespace ferry::tensor
