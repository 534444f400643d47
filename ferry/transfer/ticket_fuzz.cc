#include <algorithm>
#include <cstdlib>

#include "ferry/transfer/ticket.h"

// What is accepted is what the encoder makes of it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span wire(reinterpret_cast<const std::byte*>(data), size);
  auto ticket = ferry::transfer::Ticket::from_wire(wire);
  if (!ticket) return 0;
  auto again = ticket->to_wire();
  if (!std::equal(wire.begin(), wire.end(), again.begin(), again.end())) std::abort();
  return 0;
}
