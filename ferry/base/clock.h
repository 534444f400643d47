#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <limits>

namespace ferry {

using Nanos = std::chrono::nanoseconds;

// Monotonic nanoseconds. A vDSO call, no system call.
inline std::int64_t now_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1'000'000'000LL + ts.tv_nsec;
}

// The moment at which a wait gives up. Plain data.
class Deadline {
 public:
  // Already past: a wait with it tries once and gives up.
  constexpr Deadline() = default;

  // A span too long to be counted never ends.
  static Deadline after(Nanos span) {
    constexpr auto kNever = std::numeric_limits<std::int64_t>::max();
    auto now = now_ns();
    return Deadline(span.count() > kNever - now ? kNever : now + span.count());
  }
  static constexpr Deadline at_ns(std::int64_t monotonic_ns) { return Deadline(monotonic_ns); }

  bool expired() const { return now_ns() >= at_; }
  std::int64_t ns() const { return at_; }
  // Never negative.
  Nanos left() const {
    auto span = at_ - now_ns();
    return Nanos(span > 0 ? span : 0);
  }
  // Rounded up, for poll() and its kin; never negative, never "for ever".
  int left_ms() const {
    auto ms = (left().count() + 999'999) / 1'000'000;
    return ms > 3'600'000 ? 3'600'000 : static_cast<int>(ms);
  }
  friend bool operator<(Deadline a, Deadline b) { return a.at_ < b.at_; }

 private:
  constexpr explicit Deadline(std::int64_t at) : at_(at) {}
  std::int64_t at_ = 0;
};

}  // namespace ferry
