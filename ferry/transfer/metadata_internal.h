#pragma once

#include <array>

#include "ferry/fabric/types.h"
#include "ferry/tensor/descriptor.h"

namespace ferry::transfer {

// What travels with each tensor of a dynamic edge, at the end of its slot's body, right before the
// flag. The payload, if it is in the slot, ends where the metadata begins, padded to 64 bytes.
//
//   0    descriptor (72 bytes)
//   72   u64  bytes of the payload
//   80   u32  where the payload is
//   84   u32  1: the next tensor comes to the landing that was offered last
//   88   u64  0
//   96   region of the sender's that holds it (32 bytes), where it does
struct Metadata {
  enum class Where : std::uint32_t {
    kSlot = 1,    // in the slot, before this
    kSender = 2,  // in the sender's memory: read it, or use it in place, then acknowledge
  };
  tensor::Spec spec;
  std::uint64_t bytes = 0;
  Where where = Where::kSlot;
  bool moves = false;  // what follows comes elsewhere
  fabric::RemoteRegion region;

  static constexpr std::size_t kBytes = 128;
  using Wire = std::array<std::byte, kBytes>;
  Wire to_wire() const;
  // From bytes that cannot be trusted. The sizes of spec, payload and region agree afterwards.
  static Result<Metadata> from_wire(std::span<const std::byte> wire);
};

// A larger landing that the receiver offers, in the line of the sender's words after the
// acknowledgements; its flag, at 56, counts offers.
//
//   0    region (32 bytes)
//   32   u64  bytes of a slot's body
//   40   u64 x 2  0
struct Offer {
  fabric::RemoteRegion region;
  std::uint64_t body = 0;

  static constexpr std::size_t kBytes = 56;
  using Wire = std::array<std::byte, kBytes>;
  Wire to_wire() const;
  static Result<Offer> from_wire(std::span<const std::byte> wire);
};

}  // namespace ferry::transfer
