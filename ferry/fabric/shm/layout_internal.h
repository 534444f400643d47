#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// What two processes see at the same time; docs/wire/shm.md gives it byte by byte. Nothing here is
// trusted: whatever the peer can write is read once, checked, then used.

namespace ferry::fabric::shm {

// One per loop, in the doorbell segment of a device, which all its peers can write. A peer sets the
// bit of the lane (its index modulo 64) that wants to be looked at.
struct alignas(64) Doorbell {
  std::atomic<std::uint64_t> lanes{0};
};
static_assert(sizeof(Doorbell) == 64);
inline constexpr std::uint32_t kBits = 64;
// Descriptors of one message bound the loops that a device can show.
inline constexpr std::uint32_t kMaxLoops = 128;

// A large copy that the receiver may take a share in. Written by the writing end before `ticket`
// says that it is open; then both ends claim pieces by raising `ticket`.
struct alignas(128) Job {
  std::atomic<std::uint64_t> ticket{0};  // generation << 32 | claimed from back << 16 | from front
  alignas(64) std::atomic<std::uint64_t> finished{0};  // generation << 32 | pieces done by helpers
  alignas(64) std::atomic<std::uint64_t> length{0};
  std::atomic<std::uint64_t> key{0};            // of the grant written to
  std::atomic<std::uint64_t> offset{0};         // into it
  std::atomic<std::uint64_t> source_offset{0};  // into the writer's block
  std::atomic<std::uint32_t> epoch{0};
  std::atomic<std::uint32_t> source_block{0};
  std::atomic<std::uint32_t> piece{0};      // bytes; the last piece is shorter
  std::atomic<std::uint32_t> streaming{0};  // 1: use non-temporal stores
};
static_assert(sizeof(Job) == 256);

// The words of one direction of a lane. "Sender" is the end that posts.
struct alignas(128) OneWay {
  Job job;                                          // by the sender; helpers claim pieces
  alignas(128) std::atomic<std::uint64_t> done{0};  // by the receiver: stream requests done so far
  alignas(128) std::atomic<std::uint32_t> wants_room{0};  // by the sender: messages wait for room
};
static_assert(sizeof(OneWay) == 512);

// The beginning of a lane's segment. Direction 0 goes from the connecting end to the accepting one.
struct LaneWords {
  static constexpr std::uint32_t kMagic = 0x4c534654;  // "TFSL"
  static constexpr std::uint32_t kVersion = 1;
  std::uint32_t magic;
  std::uint32_t version;
  alignas(512) OneWay methods[2];
};
static_assert(sizeof(LaneWords) == 1536);

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kMessageRing = 64 * 1024;
// More than a core's own cache: a line that is still there when its place is written again has to
// be fetched from the other core, which is slower than the shared cache.
inline constexpr std::size_t kStreamRing = 2 * 1024 * 1024;
inline constexpr std::size_t kReplyRing = 2 * 1024 * 1024;
inline constexpr std::size_t kWaySize = kMessageRing + kStreamRing + kReplyRing;
inline constexpr std::size_t kLaneSegment = kPage + 2 * kWaySize;

// Where the rings of a direction begin. The reply ring of direction d answers its stream ring and
// so is written by the receiver.
constexpr std::size_t message_ring_at(int way) {
  return kPage + static_cast<std::size_t>(way) * kWaySize;
}
constexpr std::size_t stream_ring_at(int way) { return message_ring_at(way) + kMessageRing; }
constexpr std::size_t reply_ring_at(int way) { return stream_ring_at(way) + kStreamRing; }

}  // namespace ferry::fabric::shm
