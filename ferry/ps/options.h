#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::ps {

// When gradients are applied, and what a pull waits for.
enum class Consistency : std::uint8_t {
  kSync = 1,     // BSP: a step is applied when every worker has ended it
  kBounded = 2,  // SSP: at once; nobody is more than `staleness` steps ahead of the slowest
  kAsync = 3,    // at once; nobody waits
};

// What holds for a whole job. The scheduler's word; servers and workers learn it when they join.
struct JobOptions {
  std::uint32_t servers = 1;
  std::uint32_t workers = 1;  // at a time; more are refused
  // Workers that the first step waits for, ranks from 0 on; 0: all. The others may join later.
  std::uint32_t start_with = 0;
  Consistency consistency = Consistency::kSync;
  std::uint64_t staleness = 0;  // kBounded
  bool mean = false;            // kSync: divide the sum by the number of workers
  std::uint64_t block_bytes = std::uint64_t{256} << 10;  // 4 KiB to 64 MiB, a multiple of 64
  std::uint32_t pool_blocks = 64;  // slots of each shard, shared by all workers: at least one each
  std::uint32_t most_dead = ~0U;   // when more workers than that have died, the job ends
  // Servers that have each block: 1, or 2, so that the job goes on when a server dies. With 2, all
  // servers have the same number of shards.
  std::uint32_t replicas = 1;
  // kSync: gradients of workers of one host are added up before they leave it, where servers do not
  // map workers' memory. Sums are then by host first, and by rank within it.
  bool merge = false;
  // How long servers and workers wait for a scheduler that is gone to come back; 0: not at all. A
  // scheduler says so itself, by whether it keeps a state.
  std::uint32_t scheduler_away_ms = 0;
};

}  // namespace ferry::ps
