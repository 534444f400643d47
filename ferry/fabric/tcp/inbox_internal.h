// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

// Messages that have arrived and wait to be taken. The token's holder puts them in, any thread
// takes them out. The peer's credits keep it from overflowing.
class Inbox {
 public:
  // Room for the next message; nullptr when full. The first call allocates.
  std::byte* reserve();
  void commit(std::uint32_t length);

  bool empty() const {
    return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_relaxed);
  }
  // How many were ever taken, modulo 2^32.
  std::uint32_t taken() const { return head_.load(std::memory_order_acquire); }
  std::uint32_t arrived() const { return tail_.load(std::memory_order_relaxed); }
  // Copies the oldest message out. kNotFound if there is none, kResourceExhausted if `into` is too
  // small; the message then stays.
  Result<std::size_t> take(std::span<std::byte> into);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::array<std::uint32_t, kMessageCredits> lengths_{};
  std::atomic<std::uint32_t> tail_{0};
  std::atomic<std::uint32_t> head_{0};
  SpinLock taking_;
};

}  // namespace ferry::fabric::tcp
