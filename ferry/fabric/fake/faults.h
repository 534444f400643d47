#pragma once

#include <cstdint>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"

namespace ferry::fabric::fake {

// What goes wrong, and when. Operations and attachments are counted over all fake devices of the
// process from the moment the faults were set: 1 is the first one after that; 0 means never.
struct Faults {
  std::uint64_t seed = 1;  // of every random choice below
  Nanos max_delay{0};      // an operation starts up to this long after it was posted
  bool shuffle = false;    // operations run, and completions arrive, out of order
  // Payloads land in pieces this small, last piece first unless the path keeps order, with a delay
  // before each; 0: whole.
  std::size_t piece_bytes = 0;
  std::uint64_t fail_nth = 0;         // this operation does nothing and fails ...
  Code fail_code = Code::kInternal;   // ... with this
  std::uint64_t lose_every = 0;       // every n-th completion never arrives
  std::uint64_t duplicate_every = 0;  // every n-th completion arrives twice
  std::uint64_t break_lane_at = 0;    // this operation breaks its lane
  std::uint64_t lose_peer_at = 0;     // this operation finds its peer gone
  std::uint64_t fail_attach_at = 0;   // this attachment of memory fails
  bool late_maps = false;             // memory of a peer is not there in time to be mapped
};

// What has gone wrong since the faults were set.
struct FaultCounts {
  std::uint64_t operations = 0;
  std::uint64_t failed = 0;
  std::uint64_t lost = 0;
  std::uint64_t duplicates_swallowed = 0;
  std::uint64_t broken_lanes = 0;
  std::uint64_t flags = 0;  // stored by flagged writes
};

// What the lanes that are made from now on can do. With `tail_flag` a write lands in ascending
// order, word by word, so that a reader may see any prefix of it and nothing else.
struct Path {
  bool maps_peer = true;
  bool tail_flag = false;
  int numa_node = -1;  // of a NIC that devices opened from now on have
};

// The faults of the whole process. Thread-safe. Affects devices that are open as well.
class Script {
 public:
  static void set(const Faults& faults);
  static void clear() { set({}); }
  static FaultCounts counts();
  // Not changed by set() and clear().
  static void use_path(const Path& path);
};

}  // namespace ferry::fabric::fake
