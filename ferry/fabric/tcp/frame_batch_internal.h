// Data path.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferry/base/error.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

// The frames that a lane is about to send, in order; they leave in one system call as far as the
// socket takes them, straight from the user's memory. Of the one who sends; not thread-safe.
//
// Between calls: bytes() counts all of its frames, also what of the first one has left.
class FrameBatch {
 public:
  struct Frame {
    Header header;
    const std::byte* payload = nullptr;
    std::uint64_t length = 0;
    Operation* op = nullptr;  // whose bytes these are; null: nobody's that could be called back
    std::optional<Error> reason{};
    std::uint64_t total() const { return kHeaderBytes + length; }
  };

  // Bytes of memory that peers read leave while their grant stands.
  explicit FrameBatch(const GrantTable& grants) : grants_(grants) {}

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  bool has_room() const { return count_ < kMost && bytes_ < kBurst; }
  Frame& frame(std::size_t index) { return frames_[(first_ + index) % kMost]; }
  // Whether bytes of the frame have left. The first one alone can have.
  bool has_begun(std::size_t index) const { return index == 0 && offset_ != 0; }

  // A new frame of this type; commit() it when its payload is known.
  Frame& add(FrameType type) {
    Frame& added = frame(count_++);
    added.header = Header{};
    added.header.type = static_cast<std::uint8_t>(type);
    added.payload = nullptr;
    added.length = 0;
    added.op = nullptr;
    added.reason.reset();
    return added;
  }
  void commit(const Frame& added) { bytes_ += added.total(); }
  // Makes the frame, of which nothing has left, one without a payload that says nothing.
  void blank(std::size_t index);
  void clear();

  // Makes one system call and returns its result; `bytes` is how many it was given.
  ssize_t send(int socket, std::uint64_t& bytes);
  // So many bytes have left. Returns the last request that has left whole; 0: none has. Operations
  // that were sent to their last byte may have ended by now: they are not touched.
  std::uint64_t advance(std::uint64_t bytes);

 private:
  static constexpr std::size_t kMost = 16;
  static constexpr std::size_t kFlat = 512;
  static constexpr std::uint64_t kBurst = std::uint64_t{4} << 20;

  // Whether a frame carries bytes of a granted region, whose grant has to be looked at once more
  // before these bytes leave.
  bool has_read_part();
  // Lists what is left of the frames, up to about kBurst bytes, and returns how many parts that
  // are.
  std::size_t gather(std::array<iovec, 2 * kMost>& out, std::uint64_t& bytes);
  // If the grant of a read part was revoked, replaces its bytes by zeros, and makes the end of that
  // read a refusal if it is in the batch.
  void withdraw_revoked(std::size_t index);

  const GrantTable& grants_;
  std::array<Frame, kMost> frames_;  // a ring
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t offset_ = 0;  // bytes of the first frame that have left
};

}  // namespace ferry::fabric::tcp
