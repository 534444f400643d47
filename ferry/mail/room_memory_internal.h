#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/landing/buffer_pool.h"

namespace ferry::mail {

// Buffers that messages to any peer are built in. Each goes back to the pool when the program and
// every send have let go of it. Thread-safe; its lock comes after all others of the room.
class RoomMemory {
 public:
  // `most` bytes may be in use, and more of them kept for other sizes.
  RoomMemory(fabric::Device& device, std::uint64_t most)
      : pool_(device, most > ~std::uint64_t{0} / kKept ? ~std::uint64_t{0} : kKept * most),
        most_(most) {}

  // With one share, the caller's.
  Result<landing::BufferPool::Buffer> take(std::uint64_t bytes);
  // `lost`: a peer that is cut off may still look at it; it is not used again.
  void unshare(std::size_t index, bool lost = false);

  struct Found {
    std::size_t index = 0;
    fabric::RemoteRegion remote;
    std::uint64_t offset = 0;
  };
  // Where the bytes lie, if all of them are in a buffer that somebody has a share in.
  std::optional<Found> find(std::span<const std::byte> bytes);
  // The same, and takes a share.
  std::optional<std::size_t> share(std::span<const std::byte> bytes);

 private:
  struct Entry {
    landing::BufferPool::Buffer buffer;
    std::uint32_t shares = 0;
    std::uint64_t given = 0;
    bool lost = false;
  };
  std::optional<Found> find_locked(std::span<const std::byte> bytes) FERRY_REQUIRES(lock_);

  static constexpr std::uint64_t kKept = 4;
  landing::BufferPool pool_;
  const std::uint64_t most_;
  SpinLock lock_;
  std::vector<Entry> entries_ FERRY_GUARDED_BY(lock_);  // by index in the pool
  std::map<const std::byte*, std::size_t> by_begin_ FERRY_GUARDED_BY(lock_);
  std::uint64_t given_ FERRY_GUARDED_BY(lock_) = 0;
};

}  // namespace ferry::mail
