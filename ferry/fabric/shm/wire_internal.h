#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ferry/base/error.h"

// What goes over the local socket of two devices, byte-exact in docs/wire/shm.md. Each message is
// one packet; descriptors travel beside it.

namespace ferry::fabric::shm {

inline constexpr std::size_t kMaxText = 512;  // bytes of an error's words

inline constexpr std::uint16_t kWireVersion = 2;
inline constexpr std::size_t kMaxPacket = 1024;
using JoinToken = std::array<std::byte, 16>;

// How peers reach this provider, and who they must be. Sent to authenticated peers only.
struct Offer {
  std::string socket_name;  // in the abstract namespace
  std::string boot_id;
  std::uint64_t net_space = 0;
  std::uint64_t pid_space = 0;
  std::uint32_t uid = 0;
  std::int32_t pid = 0;

  static Result<Offer> of_this_process(std::string socket_name);
  std::vector<std::byte> encode() const;
  static Result<Offer> decode(std::span<const std::byte> bytes);
};

// The first packet of either side. Descriptors: the lane's segment (from the connecting side only),
// the grant table, the bells, the doorbells, then the eventfd of each loop.
struct HelloPacket {
  bool connecting = false;
  JoinToken token{};        // what accept() answered; zero from the accepting side
  std::uint32_t loops = 0;  // how many loops the sender has
  std::uint32_t loop = 0;   // which of them this lane is on
  std::uint32_t index = 0;  // of the lane in that loop: its bit in the doorbell is index modulo 64

  std::size_t descriptors() const { return (connecting ? 4U : 3U) + loops; }
};
// Instead of the accepting side's hello.
struct RefusalPacket {
  Code code = Code::kInternal;
  std::string text;
};
// A block of the sender's, with two descriptors: for reading and writing, and for reading only.
struct BlockPacket {
  std::uint32_t id = 0;
  std::uint64_t length = 0;
};
// The block is gone; nobody can be using it any more.
struct DropPacket {
  std::uint32_t id = 0;
};
// The grant was revoked: answer with the number when no thread of yours can be using it.
struct RevokePacket {
  std::uint64_t number = 0;
  std::uint64_t key = 0;
};
struct RevokedPacket {
  std::uint64_t number = 0;
};

using Packet =
    std::variant<HelloPacket, RefusalPacket, BlockPacket, DropPacket, RevokePacket, RevokedPacket>;
std::vector<std::byte> encode(const Packet& packet);
// kInvalidArgument for whatever encode() would not have made.
Result<Packet> decode(std::span<const std::byte> bytes);

}  // namespace ferry::fabric::shm
