#include "ferry/bootstrap/frame.h"

#include "ferry/bootstrap/codec.h"

namespace ferry::bootstrap {

namespace {
constexpr std::size_t kKept = 8192;  // by a reader that has handed out all it was fed
}  // namespace

void append_frame(std::vector<std::byte>& out, std::uint16_t type, std::uint64_t id,
                  std::span<const std::byte> payload) {
  FERRY_ASSERT(payload.size() <= kMaxPayload, "a control frame carries at most 16 KiB");
  Encoder(out)
      .u32(static_cast<std::uint32_t>(payload.size()))
      .u16(type)
      .u16(0)
      .u64(id)
      .raw(payload);
}

void FrameReader::feed(std::span<const std::byte> bytes) {
  if (error_) return;
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
  used_ = 0;
  if (buffer_.empty() && buffer_.capacity() > kKept) std::vector<std::byte>().swap(buffer_);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameReader::next() {
  if (error_) return tl::unexpected(*error_);
  auto rest = std::span<const std::byte>(buffer_).subspan(used_);
  if (rest.size() < kFrameHeader) return std::nullopt;
  Decoder header(rest.first(kFrameHeader));
  std::size_t length = header.u32();
  Frame frame;
  frame.type = header.u16();
  auto reserved = header.u16();
  frame.id = header.u64();
  Status sound;
  if (length > kMaxPayload)
    sound = fail(Code::kInvalidArgument,
                 "the peer broke the protocol: a control frame of {} bytes, but {} is the most",
                 length, kMaxPayload);
  else if (reserved != 0)
    sound = fail(Code::kInvalidArgument,
                 "the peer broke the protocol: the reserved field of a control frame is {}, not 0",
                 reserved);
  if (!sound) return tl::unexpected(error_.emplace(sound.error()));
  if (rest.size() - kFrameHeader < length) return std::nullopt;
  frame.payload = rest.subspan(kFrameHeader, length);
  used_ += kFrameHeader + length;
  return frame;
}

}  // namespace ferry::bootstrap
