#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/base/counters.h"

namespace ferry::fabric {

// What a device counts of its peers, since it was opened. Thread-safe.
struct PeerCounts {
  Counter lost;
  Counter refused;
  std::atomic<std::uint64_t> silent{0};  // now
};

}  // namespace ferry::fabric
