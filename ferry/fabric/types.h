#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/inline_function.h"
#include "ferry/base/spin.h"

namespace ferry::fabric {

// Names this machine among all, until it is booted again: its kernel's boot id.
std::string host_id();

// What a grant lets a peer do to a region.
enum class Rights : std::uint8_t {
  kNone = 0,
  kRead = 1,
  kWrite = 2,
  kAtomic = 4,
  kReadWrite = 3,
  kAll = 7,
};
constexpr Rights operator|(Rights a, Rights b) {
  return static_cast<Rights>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
// True when `have` includes all of `need`.
constexpr bool allows(Rights have, Rights need) {
  auto wanted = static_cast<unsigned>(need);
  return (static_cast<unsigned>(have) & wanted) == wanted;
}

// Names one opened Device among all; random.
struct DeviceId {
  std::array<std::uint8_t, 16> bytes{};
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
  std::string to_string() const;
};

// What a peer gets: a grant on a region of another device. Plain data; safe to put on the wire.
// `address` is the region's address in its owner and means nothing elsewhere.
struct RemoteRegion {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t epoch = 0;
  Rights rights = Rights::kNone;

  static constexpr std::size_t kWireBytes = 32;
  std::array<std::byte, kWireBytes> to_wire() const;
  static Result<RemoteRegion> from_wire(std::span<const std::byte> wire);
  friend bool operator==(const RemoteRegion&, const RemoteRegion&) = default;
};

// A place in a peer's region. Converts from RemoteRegion: its beginning.
struct RemoteAt {
  RemoteRegion region;
  std::uint64_t offset = 0;
  RemoteAt(const RemoteRegion& whole, std::uint64_t at = 0)  // NOLINT(google-explicit-constructor)
      : region(whole), offset(at) {}
};

// How a waiter behaves until what it waits for happens.
enum class WaitMode : std::uint8_t {
  kAdaptive,  // spin for a bounded time, then sleep
  kSpin,      // spin until the deadline; for latency, when cores are to spare
  kSleep,     // sleep at once
};

// How much an operation hurries. A hint: providers that gain nothing by waiting do not wait.
enum class Pace : std::uint8_t {
  kPrompt,   // leaves at once, and its end is told at once
  kLateEnd,  // leaves at once; nobody waits for its end, which may be told some milliseconds late
  kLate,     // also leaves late, with what is posted next on the channel, within milliseconds
};

// Whether a 64-bit word of this process, aligned to 8, is at least `value`, wrapping like a
// sequence number. Bytes written before the flag was are seen after.
inline bool flag_reached(const std::byte* word, std::uint64_t value) {
  auto now = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(word), __ATOMIC_ACQUIRE);
  return static_cast<std::int64_t>(now - value) >= 0;
}

// The same, looked at a few times more: what is on its way mostly comes before it pays to start
// making progress. Pauses, so as not to take the line from the writer.
inline bool flag_comes(const std::byte* word, std::uint64_t value, int looks) {
  if (flag_reached(word, value)) return true;
  for (; looks > 0; --looks) {
    cpu_relax();
    if (flag_reached(word, value)) return true;
  }
  return false;
}

// What a device, or the path to a peer, can do.
struct Capabilities {
  bool one_sided = false;       // the peer's CPU takes no part
  bool maps_peer = false;       // a peer's region can be used in place
  bool tail_flag = false;       // writes land in ascending order, the last byte last
  bool atomics = false;         // fetch-add and compare-swap
  std::size_t max_message = 0;  // largest small message in bytes
};

// What one provider did to make memory reachable for transfers, since the device was opened.
struct RegistrationStats {
  std::string provider;
  // Whether registering pins pages and makes them known to a NIC (verbs). Otherwise it is
  // bookkeeping: shm tells its peers of the memory, tcp does nothing.
  bool hardware = false;
  // Arenas and register_memory(); with hardware also message buffers, grants and what
  // `for_transfers` counts.
  std::uint64_t count = 0;
  std::uint64_t ns = 0;  // spent in them
  // Of these: because the bytes of one transfer lay in memory that was not registered.
  std::uint64_t for_transfers = 0;
  std::uint64_t for_transfers_ns = 0;
  std::uint64_t reused = 0;  // transfers from such memory that an earlier registration served
};

// Called exactly once when an operation has ended, on the thread that finds the end: one that makes
// progress, the poster itself before its call returns, or one that closes. So no lock that it takes
// may be held in a call that posts, waits, makes progress or closes. It must not block, wait for an
// operation, nor close or destroy a channel, a region or a device; it may post. The status is kOk,
// the named failure, or kCancelled.
using Callback = InlineFunction<void(const Status&)>;

}  // namespace ferry::fabric
