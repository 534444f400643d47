#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ferry/bootstrap/hello.h"

// Arbitrary bytes in arbitrary fragments, to both roles. Without the secret nobody gets in.
namespace ferry::bootstrap {
namespace {

// Once failed, always failed; and the answer to a stranger is short.
void attack(Role role, std::span<const std::byte> bytes, std::size_t step) {
  static const Secret kSecret = *Secret::from_text("the fuzzer does not know this");
  Bytes32 nonce;
  nonce.fill(std::byte{role == Role::kConnector ? std::uint8_t{1} : std::uint8_t{2}});
  auto handshake = *Handshake::open_with_nonce(role, kSecret, Hello{}, nonce);
  bool failed = false;
  while (!bytes.empty()) {
    auto count = std::min(step, bytes.size());
    auto taken = handshake.consume(bytes.first(count));
    if (handshake.done() || (failed && taken) || handshake.output().size() > 128) std::abort();
    failed = !taken;
    bytes = bytes.subspan(count);
  }
  if (handshake.peer_closed()) std::abort();
}

}  // namespace
}  // namespace ferry::bootstrap

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ferry::bootstrap;
  if (size == 0) return 0;
  std::size_t step = data[0] == 0 ? size : data[0];
  auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  attack(Role::kConnector, bytes, step);
  attack(Role::kAcceptor, bytes, step);
  return 0;
}
