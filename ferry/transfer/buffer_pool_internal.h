#pragma once

#include <deque>
#include <optional>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"

namespace ferry::transfer {

// Registered buffers of one edge, used again and again: they are neither freed nor registered anew
// while the edge lives, so their number is bounded by the tensors under way and the sizes' octaves.
// Thread-safe.
class BufferPool {
 public:
  // `reader` gets the right to read every buffer; null: nobody does, or everybody.
  BufferPool(fabric::Device& device, const fabric::Channel* reader, bool everybody = false)
      : device_(device), reader_(reader), everybody_(everybody) {}

  struct Buffer {
    std::size_t index = 0;
    std::span<std::byte> bytes;
    fabric::RemoteRegion remote;  // for the reader
  };
  // The smallest idle buffer that holds so many bytes, or a new one. 64-aligned.
  Result<Buffer> take(std::uint64_t bytes);
  void give(std::size_t index);

 private:
  struct Entry {
    fabric::Region region;
    fabric::RemoteRegion remote;
    bool busy = true;
  };
  fabric::Device& device_;
  const fabric::Channel* reader_;
  const bool everybody_;
  Mutex lock_;
  std::deque<Entry> entries_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::transfer
