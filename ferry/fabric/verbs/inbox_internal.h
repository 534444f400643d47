// Data path.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/base/spin.h"
#include "ferry/fabric/verbs/memory_internal.h"

namespace ferry::fabric::verbs {

// Messages that have arrived on a lane and wait to be taken, each in the buffer that it arrived in.
// The token's holder puts them in, any thread takes them out.
class Inbox {
 public:
  explicit Inbox(Buffers& buffers) : buffers_(buffers) {}
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  // Keeps the buffer. False if there were as many messages as a peer has credits for already.
  bool put(Buffer* buffer);
  bool empty() const { return messages_.load(std::memory_order_acquire) == 0; }
  // Copies the oldest message out and returns its size. kNotFound if there is none,
  // kResourceExhausted if `into` is too small; the message then stays.
  Result<std::size_t> take(std::span<std::byte> into);

 private:
  Buffers& buffers_;
  SpinLock lock_;
  Buffer* oldest_ FERRY_GUARDED_BY(lock_) = nullptr;
  Buffer* newest_ FERRY_GUARDED_BY(lock_) = nullptr;
  std::atomic<std::uint32_t> messages_{0};
};

}  // namespace ferry::fabric::verbs
