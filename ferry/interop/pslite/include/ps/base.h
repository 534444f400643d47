#pragma once

#include <cstdint>
#include <limits>

namespace ps {

#if defined(USE_KEY32) && USE_KEY32
using Key = std::uint32_t;
#else
using Key = std::uint64_t;
#endif
static const Key kMaxKey = std::numeric_limits<Key>::max();

// Groups of nodes; may be added. The scheduler is a group of its own.
static const int kScheduler = 1;
static const int kServerGroup = 2;
static const int kWorkerGroup = 4;

}  // namespace ps
