#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::bootstrap {

// The unit of a control connection after the handshake (docs/wire/bootstrap.md): a header of
// kFrameHeader bytes, then the payload.
inline constexpr std::size_t kFrameHeader = 16;
inline constexpr std::size_t kMaxPayload = 16384;

struct Frame {
  std::uint16_t type = 0;
  std::uint64_t id = 0;  // of the request that this belongs to
  std::span<const std::byte> payload;
};

// Appends one frame. The payload is at most kMaxPayload: the caller checks what users gave it.
void append_frame(std::vector<std::byte>& out, std::uint16_t type, std::uint64_t id,
                  std::span<const std::byte> payload);

// Cuts a stream of bytes into frames. Does no I/O. Not thread-safe.
class FrameReader {
 public:
  // Takes bytes in any fragments. Holds no more memory than an unfinished frame and what was fed
  // last need. Ends the life of payloads handed out before. Call next() until
  // it is empty between two feeds, else what is buffered grows.
  void feed(std::span<const std::byte> bytes);

  // The next whole frame, or nothing while it is incomplete. The payload lives until the next
  // feed(). A header that breaks the protocol gives kInvalidArgument, for ever: there is no way to
  // find the next frame, so close the connection.
  Result<std::optional<Frame>> next();

  // Bytes taken that belong to a frame not yet handed out.
  std::size_t buffered() const { return buffer_.size() - used_; }
  std::size_t held() const { return buffer_.capacity(); }

 private:
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::optional<Error> error_;
};

}  // namespace ferry::bootstrap
