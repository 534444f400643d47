#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/fabric/shm/wire_internal.h"

// Packets and offers of a peer: decoding either fails or yields what encodes to the same bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  using namespace ferry::fabric::shm;
  if (auto packet = decode(bytes); packet && !std::holds_alternative<RefusalPacket>(*packet)) {
    auto again = decode(encode(*packet));
    if (!again || again->index() != packet->index()) __builtin_trap();
  }
  if (auto offer = Offer::decode(bytes); offer && !Offer::decode(offer->encode())) __builtin_trap();
  return 0;
}
