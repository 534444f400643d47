#pragma once

#include <cstdint>
#include <string_view>

#include "ferry/base/error.h"
#include "ferry/bootstrap/codec.h"

// The version of all that scheduler, servers and workers of a job say to each other and share in
// memory: see docs/wire/ps.md. It is counted up with each change of these bytes or of what they
// mean. Whoever joins, or comes back, begins with it, and so does the answer.

namespace ferry::ps {

inline constexpr std::uint32_t kProtocolMagic = 0x56535046;  // "FPSV"
inline constexpr std::uint32_t kProtocolVersion = 1;

void put_protocol_version(bootstrap::Encoder& out);
// Reads what put_protocol_version() has written. kFailedPrecondition: it is another version, or
// none; names both, and what to do. `own`, `peer`: roles, "scheduler" say.
Status check_protocol_version(bootstrap::Decoder& in, std::string_view own, std::string_view peer);

}  // namespace ferry::ps
