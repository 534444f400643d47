#include <cstdint>
#include <cstdlib>

#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/hello_pair_internal.h"

// A person in the middle: the fuzzer's bytes are laid over a sound handshake, so that the states
// behind the proofs are reached. Whoever received a changed byte must not finish.
namespace {

using ferry::bootstrap::Handshake;
using ferry::bootstrap::Role;

struct Tampering {
  std::span<const std::uint8_t> input;
  bool changed = false;

  // Three bytes of input per change: position, mask, and what else to do.
  void apply(std::vector<std::byte>& bytes) {
    if (input.size() < 3 || bytes.empty()) return;
    auto position = input[0] % bytes.size();
    auto mask = std::byte{input[1]};
    bool insert = input[2] == 1;
    input = input.subspan(3);
    if (insert) bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(position), mask);
    if (!insert) bytes[position] ^= mask;
    changed |= insert || mask != std::byte{0};
  }
};

// True while there was something to carry.
bool carry(Handshake& from, Handshake& to, Tampering& tampering) {
  std::vector<std::byte> bytes(from.output().begin(), from.output().end());
  if (bytes.empty()) return false;
  from.consumed_output(bytes.size());
  auto done = to.done();
  tampering.apply(bytes);
  (void)to.consume(bytes).has_value();
  // An inserted byte at the very end is what follows the handshake.
  if (!done && to.done() && tampering.changed && to.rest().empty()) std::abort();
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ferry::bootstrap;
  static const Secret kSecret = *Secret::from_text("both sides know this one");
  Bytes32 ones, twos;
  ones.fill(std::byte{1});
  twos.fill(std::byte{2});
  auto connector = *Handshake::open_with_nonce(Role::kConnector, kSecret, connector_hello(), ones);
  auto acceptor = *Handshake::open_with_nonce(Role::kAcceptor, kSecret, acceptor_hello(), twos);
  Tampering to_acceptor{std::span(data, size / 2)};
  Tampering to_connector{std::span(data + size / 2, size - size / 2)};
  while (carry(connector, acceptor, to_acceptor) || carry(acceptor, connector, to_connector)) {
  }
  return 0;
}
