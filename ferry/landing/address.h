#pragma once

#include <cstdint>

#include "ferry/fabric/types.h"

namespace ferry::landing {

// Where a landing is and how its receiver waits: all that a sender needs to reach it. Plain data.
struct Address {
  bool spins = false;           // the receiver never sleeps: it need not be woken
  std::uint32_t slots = 0;      // of the ring
  std::uint64_t body = 0;       // bytes of a slot before its flag
  std::uint64_t nonce = 0;      // of this opening; never 0
  fabric::DeviceId owner;       // whose memory it is
  fabric::RemoteRegion region;  // all of it

  friend bool operator==(const Address&, const Address&) = default;
};

}  // namespace ferry::landing
