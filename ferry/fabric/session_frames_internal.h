#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::fabric {

// Frames of the control connection (docs/wire/control.md).
enum class FrameType : std::uint16_t {
  kPing = 1,
  kPong = 2,
  kOpenLane = 3,       // lane, provider, payload -> answer
  kLaneReady = 4,      // lane
  kCloseLane = 5,      // lane
  kReconnectLane = 6,  // lane: the acceptor's end is broken
  kCall = 7,           // provider, payload -> answer
  kTell = 8,           // provider, payload
  kLookUp = 9,         // milliseconds to wait, name -> remote region
  kAnswer = 10,        // code, text or payload
  kBye = 11,           // nothing: the sender leaves; or milliseconds of silence: it gives us up
};

// Bytes of a name in a frame: of a provider, or in the address book.
inline constexpr std::size_t kMaxNameInFrame = 256;

}  // namespace ferry::fabric
