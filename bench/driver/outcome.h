#pragma once

#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// Missed: the whole 95 % interval is above the bound. Open: the median is above it, but part of the
// interval is not, or there are too few repetitions for an interval.
enum class Outcome { kMet, kOpen, kMissed };

inline const char* outcome_name(Outcome outcome) {
  if (outcome == Outcome::kMet) return "met";
  return outcome == Outcome::kOpen ? "open" : "MISSED";
}

inline Outcome outcome_of(const cli::Estimate& measured, double bound) {
  if (measured.low > bound && measured.has_interval()) return Outcome::kMissed;
  return measured.median > bound ? Outcome::kOpen : Outcome::kMet;
}

}  // namespace ferry::bench
