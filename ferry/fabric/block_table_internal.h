#pragma once

#include <map>
#include <unordered_map>

#include "ferry/base/spin.h"
#include "ferry/memory/block.h"
#include "ferry/memory/registrar.h"

namespace ferry::fabric {

// Every block of a device by address and by id. As a registrar of the pool it hears of the arenas.
// Thread-safe. A block found stays valid while a region on it lives.
class BlockTable : public memory::Registrar {
 public:
  Status attach(const memory::Block& block) override {
    LockGuard<SpinLock> guard(lock_);
    by_id_.emplace(block.id, block);
    by_address_.emplace(block.bytes.data(), block.id);
    return {};
  }
  void detach(const memory::Block& block) override {
    LockGuard<SpinLock> guard(lock_);
    auto [first, last] = by_address_.equal_range(block.bytes.data());
    for (auto it = first; it != last; ++it)
      if (it->second == block.id) {
        by_address_.erase(it);
        break;
      }
    by_id_.erase(block.id);
  }
  const memory::Block* of(std::uint32_t id) {
    LockGuard<SpinLock> guard(lock_);
    auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second;
  }
  // The block that holds [at, at + length). Of overlapping ones, that which begins last.
  const memory::Block* holding(const std::byte* at, std::size_t length) {
    LockGuard<SpinLock> guard(lock_);
    auto next = by_address_.upper_bound(at);
    if (next == by_address_.begin()) return nullptr;
    const auto& block = by_id_.at(std::prev(next)->second);
    const auto* end = block.bytes.data() + block.bytes.size();
    return length <= static_cast<std::size_t>(end - at) && at < end ? &block : nullptr;
  }

 private:
  SpinLock lock_;
  std::unordered_map<std::uint32_t, memory::Block> by_id_ FERRY_GUARDED_BY(lock_);
  std::multimap<const std::byte*, std::uint32_t> by_address_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
