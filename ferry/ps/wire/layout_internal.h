// Data path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// The bytes that workers and shards share: see docs/wire/ps.md.

namespace ferry::ps {

inline constexpr std::size_t kLine = 64;

enum class Operation : std::uint32_t { kPush = 1, kRows = 2, kAssign = 3, kEnd = 4 };

// One request of a worker. `number` is the flag and comes last.
struct Entry {
  static constexpr std::uint32_t kInPlace = ~0U;
  static constexpr std::size_t kBody = 56;

  Operation operation = Operation::kEnd;
  std::uint32_t part = 0;
  std::uint32_t first = 0;   // block
  std::uint32_t blocks = 0;  // how many
  std::uint32_t slot = 0;    // of the worker's own; kInPlace: in memory that the worker granted
  std::uint32_t attempt = 0;
  std::uint64_t offset = 0;  // in place: within that memory; in a slot: 1, send the new values back
  std::uint64_t bytes = 0;
  std::uint64_t step = 0;
  std::uint64_t count = 0;  // kRows: rows; in place: which of the worker's memories
  std::uint64_t number = 0;
};
static_assert(sizeof(Entry) == kLine && offsetof(Entry, number) == Entry::kBody);

inline constexpr std::uint32_t kRingEntries = 256;

// What a shard tells a worker; one line in the worker's memory. All of them only grow.
struct Words {
  std::uint64_t landed = 0;  // entries that were taken
  std::uint64_t slots = 0;   // payloads in slots that are not needed any more
  std::uint64_t clock = 0;
  // The newest attempt of the job, which may be that of a step after the open one; from
  // AbortCause::kFirstWord on: the job is over for this worker, and why.
  std::uint64_t redo = 0;
  std::uint64_t view = 0;  // JobView::number
};
inline constexpr std::size_t kWordsBytes = kLine;
static_assert(sizeof(Words) <= kWordsBytes);

inline constexpr std::uint32_t kPlanes = 3;

// Where a block's versions are; written by its shard alone.
struct Head {
  std::uint64_t current = 0;  // version * 8 + plane; version 0: nothing is there yet
  std::uint64_t stamps[kPlanes] = {};
  std::uint64_t unused[7 - kPlanes] = {};

  static constexpr std::uint64_t pack(std::uint64_t version, std::uint32_t plane) {
    return version * 8 + plane;
  }
  static constexpr std::uint64_t version_of(std::uint64_t current) { return current / 8; }
  static constexpr std::uint32_t plane_of(std::uint64_t current) {
    return static_cast<std::uint32_t>(current % 8);
  }
};
static_assert(sizeof(Head) == kLine);

// A worker's two leases at a part; written by the worker, and cleared by the shard's server.
struct Seat {
  struct Lease {
    std::uint64_t begin = 0;  // 0: none; else nonce << 48 | epoch + 1
    std::uint64_t end = 0;    // the same of the last epoch that it may have seen; or looking_of()
  };
  Lease held;
  Lease copying;
  std::uint64_t unused[4] = {};

  static constexpr std::uint64_t kEpochMask = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t word_of(std::uint16_t nonce, std::uint64_t epoch) {
    return std::uint64_t{nonce} << 48 | ((epoch + 1) & kEpochMask);
  }
  static constexpr std::uint64_t epoch_of(std::uint64_t word) { return (word & kEpochMask) - 1; }
  // The end of a lease whose worker has not seen all yet.
  static constexpr std::uint64_t looking_of(std::uint16_t nonce) {
    return std::uint64_t{nonce} << 48 | kEpochMask;
  }
  // Whether `end` bounds the lease: not while its worker looks, and not if it is the end of a
  // worker that had the seat before, was given up and lives on.
  static constexpr bool bounds(std::uint64_t end, std::uint64_t begin) {
    const auto difference = end ^ begin;
    return (difference & ~kEpochMask) == 0 && (end & kEpochMask) != kEpochMask;
  }
};
static_assert(sizeof(Seat) == kLine);

// Epoch, heads, planes: one region, which workers may only read. The epoch grows by two with each
// publication, and is odd meanwhile.
struct PartLayout {
  std::uint64_t bytes = 0;  // of one version
  std::uint64_t block_bytes = 0;

  std::uint32_t blocks() const {
    return static_cast<std::uint32_t>((bytes + block_bytes - 1) / block_bytes);
  }
  std::uint64_t bytes_of(std::uint32_t block) const {
    auto begin = block * block_bytes;
    return bytes - begin < block_bytes ? bytes - begin : block_bytes;
  }
  std::uint64_t head(std::uint32_t block) const { return kLine + block * sizeof(Head); }
  std::uint64_t stride() const { return (bytes + kLine - 1) / kLine * kLine; }
  std::uint64_t plane(std::uint32_t index) const {
    constexpr std::uint64_t kPage = 4096;
    return (head(blocks()) + kPage - 1) / kPage * kPage + index * stride();
  }
  std::uint64_t total() const { return plane(kPlanes); }
};

// Words that another process, or another thread, looks at.
inline std::atomic_ref<std::uint64_t> word_at(std::byte* memory, std::size_t offset = 0) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory + offset));
}
inline std::uint64_t load_word(const std::byte* memory, std::size_t offset = 0,
                               int order = __ATOMIC_ACQUIRE) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(memory + offset), order);
}

}  // namespace ferry::ps
