#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"

// What a client and a server with the plug-in say to each other when they meet:
// docs/design/grpc-endpoint.md.

namespace ferry::interop {

// Names one call; the server makes it up, and the client says it on the channel that it opens.
using CallToken = std::array<std::byte, 16>;
// Said by a client on a channel that is there to measure the path. No server makes it up: a token
// is random.
inline constexpr CallToken kMeasureToken{};

inline constexpr std::uint32_t kCallVersion = 1;
// How long both have for the link, from the answer on: both have the plug-in, and may get little of
// a processor. To be scaled by the user's patience.
inline constexpr auto kLinkLimit = std::chrono::seconds(5);

// The server's answer, in its sealed hello.
struct CallAnswer {
  std::string endpoint;  // where its device listens
  CallToken token{};

  std::vector<std::byte> encode() const;
  // kUnavailable: another version.
  static Result<CallAnswer> decode(std::span<const std::byte> blob);
};

}  // namespace ferry::interop
