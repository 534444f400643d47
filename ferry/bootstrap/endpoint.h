#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferry/base/error.h"

namespace ferry::bootstrap {

// Where a peer listens: a name or a numeric address, and a port. Plain data.
struct Endpoint {
  std::string host;  // without brackets, also for IPv6
  std::uint16_t port = 0;

  // Reads "host:port" or "[v6]:port". Port 0 is allowed: a listener then takes any free port.
  static Result<Endpoint> parse(std::string_view text);
  // What parse() reads back to the same endpoint.
  std::string to_string() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

}  // namespace ferry::bootstrap
