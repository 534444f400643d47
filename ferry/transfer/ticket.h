#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/landing/address.h"
#include "ferry/tensor/shape.h"
#include "ferry/tensor/transfer_protocol.h"

namespace ferry::transfer {

using tensor::TransferProtocol;

// What the end that owns the memory hands to the other: where the slots are and what they are for.
// Of a shared tensor, `slots` is the number of versions. Plain data; the wire format is in
// docs/wire/transfer.md.
struct Ticket : landing::Address {
  TransferProtocol protocol = TransferProtocol::kStatic;
  std::uint32_t seat = 0;  // shared: which of the readers this is for
  tensor::Spec spec;       // may have unknown dimensions, unless static

  static constexpr std::size_t kWireBytes = 160;
  using Wire = std::array<std::byte, kWireBytes>;
  Wire to_wire() const;
  // From bytes that cannot be trusted: kInvalidArgument or kOutOfRange unless to_wire() makes them
  // and the slots fit into the region.
  static Result<Ticket> from_wire(std::span<const std::byte> wire);
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

}  // namespace ferry::transfer
