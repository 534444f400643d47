#include "ferry/memory/block.h"

namespace ferry::memory {

std::uint32_t BlockIds::next() {
  std::uint32_t id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
  FERRY_ASSERT(id != 0, "a process has used up its 4 billion block ids");
  return id;
}

}  // namespace ferry::memory
