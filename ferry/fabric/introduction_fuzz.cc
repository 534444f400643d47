#include <cstddef>
#include <cstdint>

#include "ferry/fabric/introduction_internal.h"

// Whatever a peer introduces itself with: decoded or refused, and what was decoded encodes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  auto decoded = ferry::fabric::Introduction::decode(bytes);
  if (decoded && !ferry::fabric::Introduction::decode(decoded->encode())) __builtin_trap();
  auto region = ferry::fabric::RemoteRegion::from_wire(bytes);
  if (region && ferry::fabric::RemoteRegion::from_wire(region->to_wire()).value() != *region)
    __builtin_trap();
  return 0;
}
