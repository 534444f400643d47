#pragma once

#include <sstream>
#include <string>

#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"
#include "tests/contract/fixture.h"

// Tensors there and back between two processes: what the orders `static` and `dynamic` do.

namespace ferry::contract {

std::string to_hex(std::span<const std::byte> bytes);
// Throws what is no ticket.
transfer::Ticket ticket_in(const std::string& hex);

tensor::Spec u8_spec(std::int64_t bytes);
// The size of dynamic tensor number `round`, the same on both ends: from none to beyond the pad.
std::size_t echo_size(std::uint64_t round);
// Small, so that sizes go beyond it.
transfer::DynamicOptions echo_options();

// static BYTES ROUNDS MODE TICKET | dynamic ROUNDS MODE TICKET: answers with a ticket of its own,
// then sends every tensor that comes, which is stamped with its number, back with another stamp.
std::string echo_static(Device& device, Channel& channel, std::istringstream& words);
std::string echo_dynamic(Device& device, Channel& channel, std::istringstream& words);
constexpr std::uint64_t kEchoed = 1'000'000;  // added to the stamp on the way back

}  // namespace ferry::contract
