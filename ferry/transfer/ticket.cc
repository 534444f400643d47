#include "ferry/transfer/ticket.h"

#include <algorithm>
#include <cstring>

#include "ferry/landing/layout.h"
#include "ferry/tensor/descriptor.h"

namespace ferry::transfer {

namespace {

constexpr std::uint32_t kTicketMagic = 0x324B5446;  // "FTK2"
constexpr std::size_t kOwnerAt = 16 + 8 + 8;
constexpr std::size_t kRegionAt = kOwnerAt + 16;
constexpr std::size_t kSpecAt = kRegionAt + fabric::RemoteRegion::kWireBytes;
static_assert(kSpecAt + tensor::kDescriptorBytes + 8 == Ticket::kWireBytes);

template <class T>
void put_at(std::span<std::byte> wire, std::size_t at, const T& value) {
  std::memcpy(wire.data() + at, &value, sizeof value);
}
template <class T>
T get_at(std::span<const std::byte> wire, std::size_t at) {
  T value;
  std::memcpy(&value, wire.data() + at, sizeof value);
  return value;
}

Status check_ticket(const Ticket& ticket) {
  auto layout = FERRY_TRY(landing::Layout::of(ticket.slots, ticket.body));
  if (ticket.nonce == 0) return fail(Code::kInvalidArgument, "a ticket without a number");
  if (ticket.protocol != TransferProtocol::kShared && layout.bytes() > ticket.region.length)
    return fail(Code::kOutOfRange, "a ticket with {} slots of {} bytes in a region of {}",
                ticket.slots, ticket.body, ticket.region.length);
  if (ticket.protocol != TransferProtocol::kShared && ticket.seat != 0)
    return fail(Code::kInvalidArgument, "a ticket for a seat on an edge that has none");
  if (ticket.protocol != TransferProtocol::kDynamic &&
      FERRY_TRY(ticket.spec.bytes()) != ticket.body)
    return fail(Code::kInvalidArgument, "a ticket for {} with slots of {} bytes",
                ticket.spec.to_string(), ticket.body);
  return {};
}

}  // namespace

Ticket::Wire Ticket::to_wire() const {
  Wire wire{};
  put_at(wire, 0, kTicketMagic);
  put_at(wire, 4, static_cast<std::uint8_t>(protocol));
  put_at(wire, 5, static_cast<std::uint8_t>(spins ? 1 : 0));
  put_at(wire, 8, slots);
  put_at(wire, 12, seat);
  put_at(wire, 16, body);
  put_at(wire, 24, nonce);
  put_at(wire, kOwnerAt, owner.bytes);
  put_at(wire, kRegionAt, region.to_wire());
  put_at(wire, kSpecAt, tensor::to_wire(spec));
  return wire;
}

Result<Ticket> Ticket::from_wire(std::span<const std::byte> wire) {
  if (wire.size() != kWireBytes || get_at<std::uint32_t>(wire, 0) != kTicketMagic)
    return fail(Code::kInvalidArgument, "these {} bytes are not a ticket", wire.size());
  auto protocol = get_at<std::uint8_t>(wire, 4);
  auto bits = get_at<std::uint8_t>(wire, 5);
  if (protocol < 1 || protocol > 3 || bits > 1)
    return fail(Code::kInvalidArgument, "a ticket for protocol {} with bits {:#x}", protocol, bits);
  Ticket ticket;
  ticket.protocol = static_cast<TransferProtocol>(protocol);
  ticket.spins = bits == 1;
  ticket.slots = get_at<std::uint32_t>(wire, 8);
  ticket.seat = get_at<std::uint32_t>(wire, 12);
  ticket.body = get_at<std::uint64_t>(wire, 16);
  ticket.nonce = get_at<std::uint64_t>(wire, 24);
  ticket.owner.bytes = get_at<decltype(ticket.owner.bytes)>(wire, kOwnerAt);
  ticket.region = FERRY_TRY(
      fabric::RemoteRegion::from_wire(wire.subspan(kRegionAt, fabric::RemoteRegion::kWireBytes)));
  ticket.spec = FERRY_TRY(tensor::spec_from_wire(wire.subspan(kSpecAt, tensor::kDescriptorBytes)));
  FERRY_TRY(check_ticket(ticket));
  auto canonical = ticket.to_wire();
  if (!std::equal(wire.begin(), wire.end(), canonical.begin()))
    return fail(Code::kInvalidArgument, "a ticket with bits that mean nothing");
  return ticket;
}

}  // namespace ferry::transfer
