#include <cstddef>
#include <cstdint>

#include "ferry/fabric/tcp/test_kit_internal.h"

namespace {

using namespace ferry::fabric;       // NOLINT
using namespace ferry::fabric::tcp;  // NOLINT

// Arbitrary bytes as the stream of a peer, against one granted region with guards around it:
// nothing but the region may change. The first byte cuts the stream into pieces; 'G' stands for the
// grant's key and epoch where a header has them, else no fuzzer would ever guess a key.
struct World {
  std::vector<std::byte> memory = std::vector<std::byte>(3 * 4096);
  std::unique_ptr<GrantTable> grants = GrantTable::create().value();
  GrantTable::Grant grant;
  World() {
    GrantTable::Grant wanted;
    wanted.address = reinterpret_cast<std::uint64_t>(memory.data() + 4096);
    wanted.length = 4096;
    wanted.rights = Rights::kAll;
    grant = grants->add(wanted).value();
  }
};

void use_the_grant(std::vector<std::byte>& stream, const GrantTable::Grant& grant) {
  for (std::size_t at = 0; at + kHeaderBytes <= stream.size();) {
    Header header;
    std::memcpy(&header, stream.data() + at, sizeof header);
    if ((header.key & 0xff) == 'G') header.key = grant.key, header.epoch = grant.epoch;
    if ((header.flag_key & 0xff) == 'G') {
      header.flag_key = grant.key;
      header.flag_epoch = grant.epoch;
    }
    std::memcpy(stream.data() + at, &header, sizeof header);
    auto skip = payload_of(header);
    if (skip > stream.size()) break;
    at += kHeaderBytes + skip;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  auto piece = static_cast<std::size_t>(data[0]) * 16 + 1;
  auto raw = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> stream(raw.begin(), raw.end());
  use_the_grant(stream, world.grant);
  End end(*world.grants);
  std::span<const std::byte> rest(stream);
  while (!rest.empty()) {
    auto part = rest.first(std::min(piece, rest.size()));
    rest = rest.subspan(part.size());
    if (!end.feed(part)) break;
  }
  for (std::size_t i = 0; i < 4096; ++i)
    if (world.memory[i] != std::byte{0} || world.memory[8192 + i] != std::byte{0}) __builtin_trap();
  std::vector<std::byte> into(kMaxMessage);
  while (!end.inbox.empty())
    if (!end.inbox.take(into)) __builtin_trap();
  return 0;
}
