#include <algorithm>

#include "ferry/bootstrap/codec.h"
#include "ferry/interop/grpc_endpoint/call_internal.h"

namespace ferry::interop {

namespace {

constexpr std::size_t kMostEndpointText = 256;

}  // namespace

std::vector<std::byte> CallAnswer::encode() const {
  std::vector<std::byte> blob;
  bootstrap::Encoder(blob).u32(kCallVersion).string(endpoint).raw(token);
  return blob;
}

Result<CallAnswer> CallAnswer::decode(std::span<const std::byte> blob) {
  bootstrap::Decoder in(blob);
  const auto version = in.u32();
  CallAnswer answer;
  answer.endpoint = in.string(kMostEndpointText);
  const auto token = in.raw(answer.token.size());
  FERRY_TRY(in.finish("answer to a gRPC call"));
  if (version != kCallVersion)
    return fail(Code::kUnavailable, "the server's plug-in speaks version {}; {} is known here",
                version, kCallVersion);
  std::copy(token.begin(), token.end(), answer.token.begin());
  return answer;
}

}  // namespace ferry::interop
