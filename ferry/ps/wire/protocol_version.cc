#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {

void put_protocol_version(bootstrap::Encoder& out) {
  out.u32(kProtocolMagic).u32(kProtocolVersion);
}

// A release without versions sends less, or something else in the place of the magic.
Status check_protocol_version(bootstrap::Decoder& in, std::string_view own, std::string_view peer) {
  const auto magic = in.u32();
  const auto version = in.u32();
  if (!in.ok() || magic != kProtocolMagic)
    return fail(Code::kFailedPrecondition,
                "the {} speaks version {} of the parameter server's protocol, and the {} names "
                "none, as releases before version 1 do; a job runs one release: update the {}",
                own, kProtocolVersion, peer, peer);
  if (version == kProtocolVersion) return {};
  return fail(Code::kFailedPrecondition,
              "the {} speaks version {} of the parameter server's protocol, the {} version {}; a "
              "job runs one release: update the {}",
              own, kProtocolVersion, peer, version, version < kProtocolVersion ? peer : own);
}

}  // namespace ferry::ps
