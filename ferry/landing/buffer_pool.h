#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"

namespace ferry::landing {

// Registered buffers of one edge, used again and again: they are neither freed nor registered anew
// while the edge lives, so their number is bounded by the tensors under way and the sizes' octaves.
// Thread-safe.
class BufferPool {
 public:
  // `reader` gets the right to read every buffer; null: nobody does.
  BufferPool(fabric::Device& device, const fabric::Channel* reader)
      : device_(device), reader_(reader), everybody_(false), most_(~std::uint64_t{0}) {}
  // Buffers of `most` bytes together, which everybody may read.
  BufferPool(fabric::Device& device, std::uint64_t most)
      : device_(device), reader_(nullptr), everybody_(true), most_(most) {}

  struct Buffer {
    std::size_t index = 0;
    std::span<std::byte> bytes;
    fabric::RemoteRegion remote;  // for the reader
  };
  // The smallest idle buffer that holds so many bytes, or a new one. 64-aligned. kResourceExhausted
  // if that would be more than there may be.
  Result<Buffer> take(std::uint64_t bytes);
  void give(std::size_t index);
  // Instead of give(): a reader that is cut off may still look at it, so it is not used again. Its
  // memory is freed when that reader has let go.
  void discard(std::size_t index);

 private:
  struct Entry {
    fabric::Region region;
    fabric::RemoteRegion remote;
    bool busy = true;
  };
  fabric::Device& device_;
  const fabric::Channel* reader_;
  const bool everybody_;
  const std::uint64_t most_;
  Mutex lock_;
  std::deque<Entry> entries_ FERRY_GUARDED_BY(lock_);
  std::uint64_t made_ FERRY_GUARDED_BY(lock_) = 0;                 // bytes of all of them
  std::vector<fabric::Region> discarded_ FERRY_GUARDED_BY(lock_);  // freed without locks, by take()
};

}  // namespace ferry::landing
