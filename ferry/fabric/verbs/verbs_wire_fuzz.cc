#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ferry/fabric/verbs/wire_internal.h"

// Whatever a peer sends is either refused by name or means the same after a round trip.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace verbs = ferry::fabric::verbs;
  auto bytes = std::as_bytes(std::span(data, size));
  if (auto address = verbs::decode_address(bytes)) (void)verbs::encode(*address);
  if (auto hello = verbs::decode_hello(bytes)) {
    if (verbs::decode_hello(verbs::encode(*hello))->qpn != hello->qpn) __builtin_trap();
  }
  if (auto notice = verbs::decode_notice(bytes)) {
    if (verbs::decode_notice(verbs::encode(*notice))->region != notice->region) __builtin_trap();
  }
  std::uint32_t bits = 0;
  if (size >= sizeof bits) std::memcpy(&bits, data, sizeof bits);
  if (auto immediate = verbs::decode_immediate(bits))
    if (verbs::encode(*immediate) != bits) __builtin_trap();
  return 0;
}
