#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/memory/block.h"
#include "ferry/memory/kind.h"
#include "ferry/memory/registrar.h"

namespace ferry::memory {

// A piece of a pool. Plain data: whoever holds it frees it, once. The bytes are not cleared between
// uses.
struct Allocation {
  std::span<std::byte> bytes;  // as long as asked for; aligned to 64
  std::uint32_t block = 0;
  std::size_t offset = 0;  // of bytes within the block
};

// A few large arenas, each made, faulted in and attached to every registrar once, with a fast
// allocator over them. Its bookkeeping lies outside the arenas, since peers can write those.
// Thread-safe. Registrars must outlive the pool or be removed.
class Pool {
 public:
  struct Options {
    std::size_t arena_bytes = std::size_t{64} << 20;
    // The most bytes of arenas at a time; 0: half of the machine's memory.
    std::size_t budget_bytes = 0;
    int numa_node = -1;  // -1: any
    // Empty arenas of large requests kept for the next one, since fresh pages cost more than
    // copies; they count against the budget and go first when it is short.
    std::size_t idle_bytes = std::size_t{1} << 30;
  };
  struct Stats {
    std::size_t in_use = 0;        // bytes, rounded up to the alignment
    std::size_t peak = 0;          // the most ever in use
    std::size_t arena_bytes = 0;   // of all arenas, idle ones included
    std::size_t idle_bytes = 0;    // of those, empty arenas kept for large requests
    std::size_t largest_free = 0;  // the largest request that needs no new arena, nearly
    std::size_t total_free = 0;
    double fragmentation = 0;          // 1 - largest_free / total_free; 0 when nothing is free
    std::uint64_t allocations = 0;     // ever
    std::uint64_t registrations = 0;   // registrar calls, ever
    std::uint64_t registering_ns = 0;  // spent in them
  };

  Pool();  // default options, host memory
  explicit Pool(const Options& options, Kind& kind = host_kind());
  // Every allocation has been freed.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // kInvalidArgument for 0 bytes, kResourceExhausted beyond the budget, or what a registrar said.
  // No system call while the arenas at hand suffice.
  Result<Allocation> allocate(std::size_t bytes);
  // Aborts on what is not an allocation of this pool at the moment.
  void free(const Allocation& allocation);

  // Attaches the blocks there are, and all later ones. On failure nothing stays attached.
  Status add_registrar(Registrar* registrar);
  // Detaches all blocks. The registrar must have been added.
  void remove_registrar(Registrar* registrar);

  // Arenas made from now on are bound to this NUMA node, if Options::numa_node names none and the
  // process may use the node; where it may not, a warning says so, and they are anywhere.
  void prefer_node(int node);

  std::vector<Block> blocks() const;
  std::optional<Block> block(std::uint32_t id) const;
  // Ids for blocks of the user's own memory, so that they never collide with those of the arenas.
  BlockIds& ids();
  // Walks the free pieces of the largest size class.
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferry::memory
