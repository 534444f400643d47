#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"

namespace ferry::mail {

// A mailbox in the line for receive memory.
struct MemoryWaiter {
  std::atomic<bool> may_ask{false};  // there may be memory for it now
};

// Memory for the large messages that the mailboxes of one device receive, within a budget: handed
// out in the order in which it was asked for, one message of each mailbox at a time. Thread-safe.
// Its lock comes after a mailbox's. Between calls, the first in line has been told to ask if memory
// came back since it asked.
class ReceiveMemory {
 public:
  ReceiveMemory(fabric::Device& device, std::uint64_t budget) : device_(device), budget_(budget) {}

  struct Buffer {
    std::size_t index = 0;
    std::span<std::byte> bytes;
  };
  // Nothing when there is no room now: the mailbox is in line, and `may_ask` is set when it may ask
  // again. A failure is the device's.
  Result<std::optional<Buffer>> take(MemoryWaiter& who, std::uint64_t bytes);
  void give(std::size_t index);
  // The mailbox asks no more for now.
  void leave_line(MemoryWaiter& who);
  std::uint64_t in_use() const;
  // Whether a mailbox is in line. Lock-free.
  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    fabric::Region region;
    bool busy = false;
  };
  // A buffer for so many bytes, whoever is in line. Nothing: what is in use has to come back first.
  Result<std::optional<Buffer>> take_memory(std::uint64_t bytes) FERRY_REQUIRES(lock_);
  // The smallest idle buffer of at least `bytes` and at most `most`.
  std::optional<std::size_t> find_idle(std::uint64_t bytes, std::uint64_t most)
      FERRY_REQUIRES(lock_);
  // Frees idle buffers until `wanted` bytes more stay within the budget.
  void free_idle(std::uint64_t wanted) FERRY_REQUIRES(lock_);
  // Allocates a buffer, which is idle at first.
  Result<std::size_t> make_entry(std::uint64_t bytes) FERRY_REQUIRES(lock_);
  // Whether the mailbox waits for memory.
  bool in_line(const MemoryWaiter& who) const FERRY_REQUIRES(lock_);
  // Tells the first mailbox in line that it may ask again.
  void call_next() FERRY_REQUIRES(lock_);

  fabric::Device& device_;
  const std::uint64_t budget_;
  mutable Mutex lock_;
  std::vector<Entry> entries_ FERRY_GUARDED_BY(lock_);
  std::uint64_t busy_bytes_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t idle_bytes_ FERRY_GUARDED_BY(lock_) = 0;
  std::deque<MemoryWaiter*> line_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> crowded_{false};  // it is not empty
};

}  // namespace ferry::mail
