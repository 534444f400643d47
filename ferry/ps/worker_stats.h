#pragma once

#include <cstdint>

#include "ferry/mail/wait_spin.h"

namespace ferry::ps {

// What a worker did, counted. Blocks and bytes, and parts that were read in place, count again when
// a step is restarted.
struct WorkerStats {
  std::uint64_t pushes = 0;
  std::uint64_t pushed_in_place = 0;  // parts that a server reads here
  std::uint64_t pushed_blocks = 0;    // blocks that went through the pool
  std::uint64_t pushed_bytes = 0;     // of these
  std::uint64_t merged = 0;           // gradients that another worker of the host pushed
  std::uint64_t sums = 0;             // that were pushed for several workers of the host
  std::uint64_t pulls = 0;
  std::uint64_t pulled_in_place = 0;   // parts that were leased
  std::uint64_t pulled_copies = 0;     // parts that were copied or read
  std::uint64_t pulled_with_push = 0;  // tensors that servers sent back on their own
  std::uint64_t torn_reads = 0;        // blocks that were read again
  std::uint64_t not_finite = 0;
  std::uint64_t begun_anew = 0;    // steps that were pushed once more because somebody died
  std::uint64_t servers_gone = 0;  // that the job goes on without
  // Of waits for servers: what is kept for the paths to them, unless Options::spin says one.
  mail::SpinInUse spin = {};
};

}  // namespace ferry::ps
