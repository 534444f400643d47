#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

// What a device says of itself to authenticated peers: the blob of the handshake.
struct Introduction {
  PeerIdentity identity;
  std::map<std::string, std::vector<std::byte>> offers;  // by provider

  std::vector<std::byte> encode() const;
  static Result<Introduction> decode(std::span<const std::byte> blob);
};

// Who and where this process is, as its peers are told.
PeerIdentity identity_of_this_process(std::string endpoint);

}  // namespace ferry::fabric
