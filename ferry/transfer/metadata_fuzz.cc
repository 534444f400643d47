#include <algorithm>
#include <cstdlib>

#include "ferry/transfer/metadata_internal.h"

// What is accepted is what the encoder makes of it.
template <class T>
static void check(std::span<const std::byte> wire) {
  auto value = T::from_wire(wire);
  if (!value) return;
  auto again = value->to_wire();
  if (!std::equal(wire.begin(), wire.end(), again.begin(), again.end())) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span wire(reinterpret_cast<const std::byte*>(data), size);
  check<ferry::transfer::Metadata>(wire);
  check<ferry::transfer::Offer>(wire);
  return 0;
}
