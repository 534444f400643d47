#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/waiting.h"

// The numbers of a mailbox that depend on the path, and how they came about. What is measured and
// why it cannot do harm: docs/design/tuning.md.

namespace ferry::mail {

// Plain data. The values here are what is used where nothing is known.
struct Tuning {
  std::uint64_t eager_threshold = 8 << 10;     // larger messages are announced and read
  std::uint64_t copy_up_to = 128 << 10;        // larger parts of ordinary memory are registered
  std::uint64_t chunk_bytes = 512 << 10;       // large messages are read in chunks of this
  std::uint32_t chunks_in_flight = 4;          // of one message
  Nanos spin = std::chrono::microseconds(50);  // before a waiter sleeps

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// Where the values in effect come from. What the user has set is above all of them.
enum class TuningSource : std::uint8_t {
  kDefault,   // nothing was known of the path
  kKept,      // measured before, and kept here or at the peer
  kMeasured,  // measured by this process
};
std::string_view name_of(TuningSource source);  // "default", "kept", "measured"

// What a tuning from elsewhere (a file, a peer) may hold.
struct TuningLimits {
  static constexpr std::uint64_t kEager = 256 << 10;
  static constexpr std::uint64_t kCopy = 16 << 20;
  static constexpr std::uint64_t kLeastChunk = 4 << 10;
  static constexpr std::uint64_t kMostChunk = 64 << 20;
  static constexpr std::uint32_t kChunks = 64;
  static constexpr Nanos kSpin = waiting::kMostSpin;
};
// kOutOfRange names the first value that is out of bounds.
Status check_tuning(const Tuning& tuning);

// What is known to be good for most hosts. An unknown provider has the values above.
Tuning default_tuning(std::string_view provider);

// One line of a plot: what a round takes, by the value or size under test.
struct Curve {
  struct Point {
    std::uint64_t at = 0;
    double ns = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };
  std::string name;
  std::vector<Point> points;
  // How far two halves of the same measurement differed, as a share: gains below it mean nothing.
  double noise = 0;
  friend bool operator==(const Curve&, const Curve&) = default;
};

// The curves of a calibration.
struct CurveNames {
  static constexpr const char* kEager = "eager";            // by bytes
  static constexpr const char* kAnnounced = "announced";    // by bytes
  static constexpr const char* kCopied = "copied";          // by bytes
  static constexpr const char* kRegistered = "registered";  // by bytes
  static constexpr const char* kChunk = "chunk";            // by bytes of a chunk
  static constexpr const char* kInFlight = "in-flight";     // by chunks
  static constexpr const char* kSpin = "spin";              // by nanoseconds
  static constexpr const char* kAsleep = "asleep";          // one point: by nanoseconds, 0
};

// Values, and the curves that led to them; a value without curves is a default.
struct Calibration {
  Tuning tuning;
  std::vector<Curve> curves;

  // Null: it was not measured.
  const Curve* curve(std::string_view name) const;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// The values that the curves speak for, beginning with defaults for what has none.
Tuning choose_tuning(const Tuning& defaults, const std::vector<Curve>& curves);

// The threshold up to which `small` is to be used and `large` beyond: the one with the least
// regret, summed over the sizes that both have; `usual` if that is hardly worse. 0: never `small`.
std::uint64_t choose_threshold(const Curve& small, const Curve& large, std::uint64_t usual);
// The value with the least time; `usual` if that is hardly worse.
std::uint64_t choose_value(const Curve& curve, std::uint64_t usual);
// What a wake-up costs, since who spins for as long as that never takes more than twice the best;
// or the least spin that is hardly worse than the best, if that is longer.
Nanos choose_spin(const Curve& spin, const Curve& asleep, Nanos usual);

}  // namespace ferry::mail
