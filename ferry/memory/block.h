#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ferry/memory/kind.h"

namespace ferry::memory {

// One large registered mapping, or one piece of the user's own memory. Plain data: owns nothing.
struct Block {
  std::uint32_t id = 0;
  std::span<std::byte> bytes;
  int fd = -1;  // the memfd that backs it from offset 0; -1: not shareable with other processes
  KindId kind = KindId::kHost;
};

// Issues block ids: 1, 2, 3 and so on, never twice. 0 means "no block". Thread-safe.
class BlockIds {
 public:
  std::uint32_t next();

 private:
  std::atomic<std::uint32_t> last_{0};
};

}  // namespace ferry::memory
