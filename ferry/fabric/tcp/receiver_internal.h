// Data path.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/base/error.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

// What becomes of the frames that a Receiver cuts out of the stream.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A header, well formed by itself. An error breaks the lane.
  virtual Status begin(const Header& header) = 0;
  // Where byte `at` of the payload and all that follow go; nullptr: nowhere, they are dropped.
  // Asked anew before every batch of bytes, since a grant may be revoked in between.
  virtual std::byte* place(std::uint64_t at) = 0;
  // The whole payload is there. Called for frames without one too.
  virtual Status end() = 0;
};

// Cuts a stream of bytes into frames without doing I/O: gaps() says where the next bytes belong,
// the owner receives straight into them, filled() takes note.
//
// Large payloads go where they belong at once. Small frames are received many at a time into a
// small stage and moved from there: a copy of a few hundred bytes costs less than a system call.
class Receiver {
 public:
  static constexpr std::size_t kStage = 8192;
  static constexpr std::uint64_t kLarge = 16384;

  // Dropped bytes go to `dump`.
  Receiver(FrameSink& sink, std::span<std::byte> dump) : sink_(sink), dump_(dump) {}

  // Bytes that are still to come of the frame that has begun.
  std::uint64_t remaining() const { return in_frame_ ? remaining_ : 0; }
  // At least one byte of room. Returns how many of `out` are used.
  int gaps(std::array<iovec, 2>& out);
  // `count` bytes were put into the last gaps, in order. After an error the stream is lost.
  Status filled(std::size_t count);

 private:
  // Hands to the sink what the stage has, frame by frame.
  Status digest();
  // Begins the frame whose header is next in the stage.
  Status take_header();
  // How much of the stage is filled by one read: no more than a header where a large payload is
  // expected, which then goes straight to its place.
  std::size_t stage_limit() const;

  FrameSink& sink_;
  std::span<std::byte> dump_;
  Header header_{};
  std::uint64_t at_ = 0;         // bytes of the payload that have been placed
  std::uint64_t remaining_ = 0;  // bytes of the payload still to come
  std::size_t direct_ = 0;       // length of the gap that is not the stage
  bool in_frame_ = false;
  bool large_ = false;  // the last payload was: expect the next to be, and stage its header only
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  alignas(16) std::array<std::byte, kStage> stage_;
};

}  // namespace ferry::fabric::tcp
