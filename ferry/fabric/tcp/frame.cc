// Data path.
#include "ferry/base/error.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

std::uint64_t payload_of(const Header& header) {
  switch (header.kind()) {
    case FrameType::kWrite:
    case FrameType::kMessage:
    case FrameType::kReadPart:
    case FrameType::kRefusal:
      return header.length;
    default:
      return 0;
  }
}

const char* problem_of(const Header& header) {
  std::uint8_t bits = 0;
  std::uint64_t limit = 0;
  switch (header.kind()) {
    case FrameType::kAck:
    case FrameType::kBye:
    case FrameType::kNop:
    case FrameType::kFetchAdd:
    case FrameType::kCompareSwap:
    case FrameType::kReadEnd:
    case FrameType::kFound:
      break;
    case FrameType::kWrite:
      bits = kFlagged | kNotify | kPatient;
      [[fallthrough]];
    case FrameType::kRead:
      limit = kMaxLength;
      break;
    case FrameType::kMessage:
      limit = kMaxMessage;
      break;
    case FrameType::kReadPart:
      limit = kMaxPart;
      if (header.length == 0) return "an empty part of a read";
      break;
    case FrameType::kRefusal:
      limit = kMaxReason;
      if (header.code == 0 || header.code > static_cast<std::uint16_t>(Code::kUnauthenticated))
        return "a refusal with an unknown code";
      break;
    default:
      return "a frame of unknown type";
  }
  if ((header.bits & ~bits) != 0) return "a frame with unknown bits";
  if (header.length > limit) return "an oversized frame";
  return nullptr;
}

}  // namespace ferry::fabric::tcp
