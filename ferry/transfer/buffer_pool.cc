#include <algorithm>
#include <bit>

#include "ferry/transfer/buffer_pool_internal.h"
#include "ferry/transfer/layout_internal.h"

namespace ferry::transfer {

namespace {

constexpr std::uint64_t kLeastBuffer = 4096;

// Eight sizes an octave, so that little is wasted and sizes that vary a little share buffers.
std::uint64_t capacity_for(std::uint64_t bytes) {
  auto least = std::max(bytes, kLeastBuffer);
  return align_up(least, std::max(std::bit_floor(least) / 8, Layout::kLine));
}

}  // namespace

Result<BufferPool::Buffer> BufferPool::take(std::uint64_t bytes) {
  if (bytes > Layout::kMostBody)
    return fail(Code::kResourceExhausted, "a buffer of {} bytes; {} is the most", bytes,
                Layout::kMostBody);
  LockGuard<Mutex> guard(lock_);
  Entry* best = nullptr;
  std::size_t index = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto& entry = entries_[i];
    if (entry.busy || entry.region.size() < bytes) continue;
    if (best != nullptr && best->region.size() <= entry.region.size()) continue;
    best = &entry;
    index = i;
  }
  if (best == nullptr) {
    Entry fresh;
    fresh.region = FERRY_TRY(device_.allocate(capacity_for(bytes), fabric::Rights::kRead));
    if (reader_ != nullptr)
      fresh.remote = FERRY_TRY(device_.grant(fresh.region, fabric::Rights::kRead, *reader_));
    if (everybody_) fresh.remote = FERRY_TRY(device_.grant(fresh.region, fabric::Rights::kRead));
    index = entries_.size();
    best = &entries_.emplace_back(std::move(fresh));
  }
  best->busy = true;
  return Buffer{index, best->region.bytes(), best->remote};
}

void BufferPool::give(std::size_t index) {
  LockGuard<Mutex> guard(lock_);
  entries_[index].busy = false;
}

}  // namespace ferry::transfer
