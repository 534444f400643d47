#pragma once

#include <cstdint>

namespace ferry::interop {

// Where the values of a store are, and when a push counts.
enum class KVType : std::uint8_t {
  kLocal,      // "local": in this process
  kDistSync,   // "dist_sync": what all workers push is summed, then counts
  kDistAsync,  // "dist_async": what a worker pushes counts at once
};

}  // namespace ferry::interop
