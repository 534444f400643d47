#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/types.h"
#include "ferry/fabric/verbs/gid_internal.h"

// What the two ends tell each other beside the data: docs/wire/verbs.md.

namespace ferry::fabric::verbs {

inline constexpr std::uint16_t kWireVersion = 1;
// Messages and notifying flags that one end may send before the other has taken them.
inline constexpr std::uint16_t kLaneCredits = 64;
inline constexpr std::size_t kMaxMessage = 4096;

// How a port is reached.
struct Address {
  bool ethernet = false;
  GidType gid_type = GidType::kInfiniBand;
  std::uint8_t mtu = 0;  // enum ibv_mtu: 1 to 5
  std::uint16_t lid = 0;
  GidBytes gid{};
};

// One end of a lane: what the other end needs for its queue pair.
struct LaneHello {
  Address address;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint8_t read_depth = 0;  // reads and atomics it serves at a time
  std::uint16_t credits = 0;
};

std::vector<std::byte> encode(const Address& address);
Result<Address> decode_address(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const LaneHello& hello);
Result<LaneHello> decode_hello(std::span<const std::byte> bytes);

// Notices about grants, over the control connection. `qpn` is the receiver's end of the lane.
struct Notice {
  enum class Kind : std::uint8_t {
    kResolve = 1,    // requester: where is this grant on this lane?
    kResolved = 2,   // owner: here; or the reason why not
    kForget = 3,     // owner: revoked; say so when nothing of yours uses it any more
    kForgotten = 4,  // requester: nothing does
  };
  Kind kind = Kind::kResolve;
  std::uint32_t qpn = 0;
  // Of all kinds key and epoch; of kResolved also the grant's true address, length and rights.
  RemoteRegion region;
  std::uint32_t rkey = 0;  // kResolved
  Code code = Code::kOk;   // kResolved
  std::string text;        // kResolved, when code is not kOk
};
std::vector<std::byte> encode(const Notice& notice);
Result<Notice> decode_notice(std::span<const std::byte> bytes);

// The 32 bits that come with every message and every notifying flag.
struct Immediate {
  enum class Kind : std::uint8_t { kMessage = 1, kFlag = 2, kCredits = 3, kHello = 4 };
  Kind kind = Kind::kMessage;
  std::uint16_t credits = 0;  // that the sender gives back
};
constexpr std::uint32_t encode(Immediate immediate) {
  return static_cast<std::uint32_t>(immediate.kind) << 28 | immediate.credits;
}
Result<Immediate> decode_immediate(std::uint32_t bits);

}  // namespace ferry::fabric::verbs
