#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/fabric/types.h"
#include "ferry/tensor/shape.h"

namespace ferry::transfer {

// How tensors cross an edge.
enum class Protocol : std::uint8_t {
  kStatic = 1,   // one shape for ever: the payload lands in a slot
  kDynamic = 2,  // the shape comes with each tensor
  kShared = 3,   // one producer, several readers of one buffer on one host
};

// What the end that owns the memory hands to the other: where the slots are and what they are for.
// Plain data; the wire format is in docs/wire/transfer.md.
struct Ticket {
  Protocol protocol = Protocol::kStatic;
  bool spins = false;           // the receiver never sleeps: it need not be woken
  std::uint32_t slots = 0;      // of the ring; shared: versions
  std::uint32_t seat = 0;       // shared: which of the readers this is for
  std::uint64_t body = 0;       // bytes of a slot before its flag
  std::uint64_t nonce = 0;      // of this opening; never 0
  fabric::DeviceId owner;       // whose memory it is
  fabric::RemoteRegion region;  // all of it
  tensor::Spec spec;            // may have unknown dimensions, unless static

  static constexpr std::size_t kWireBytes = 160;
  using Wire = std::array<std::byte, kWireBytes>;
  Wire to_wire() const;
  // From bytes that cannot be trusted: kInvalidArgument or kOutOfRange unless to_wire() makes them
  // and the slots fit into the region.
  static Result<Ticket> from_wire(std::span<const std::byte> wire);
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

}  // namespace ferry::transfer
