#include "ferry/landing/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "ferry/landing/layout.h"

namespace ferry::landing {

namespace {

constexpr std::uint64_t kLeastBuffer = 4096;
constexpr std::uint64_t kMostWaste = 4;  // times what is needed

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
  std::vector<fabric::Region> discarded;  // freed when the lock is not held any more
  LockGuard<Mutex> guard(lock_);
  discarded.swap(discarded_);
  Entry* best = nullptr;
  std::size_t index = 0;
  std::size_t empty = entries_.size();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    auto& entry = entries_[i];
    if (!entry.region) empty = i;
    if (entry.busy || !entry.region || entry.region.size() < bytes) continue;
    if (best != nullptr && best->region.size() <= entry.region.size()) continue;
    best = &entry;
    index = i;
  }
  const auto capacity = capacity_for(bytes);
  const bool room = made_ <= most_ && capacity <= most_ - made_;
  // What is bounded in bytes is not to be held by little ones.
  const bool wasted = best != nullptr && room && most_ != ~std::uint64_t{0} &&
                      best->region.size() / kMostWaste > capacity;
  if (best == nullptr && !room)
    return fail(
        Code::kResourceExhausted,
        "{} bytes are kept in buffers of other sizes; {} more would be over the limit of {}", made_,
        capacity, most_);
  if (best == nullptr || wasted) {
    Entry fresh;
    fresh.region = FERRY_TRY(device_.allocate(capacity, fabric::Rights::kRead));
    if (reader_ != nullptr)
      fresh.remote = FERRY_TRY(device_.grant(fresh.region, fabric::Rights::kRead, *reader_));
    if (everybody_) fresh.remote = FERRY_TRY(device_.grant(fresh.region, fabric::Rights::kRead));
    index = empty;
    if (index == entries_.size()) entries_.emplace_back();
    best = &entries_[index];
    *best = std::move(fresh);
    made_ += capacity;
  }
  best->busy = true;
  return Buffer{index, best->region.bytes(), best->remote};
}

void BufferPool::give(std::size_t index) {
  LockGuard<Mutex> guard(lock_);
  entries_[index].busy = false;
}

void BufferPool::discard(std::size_t index) {
  LockGuard<Mutex> guard(lock_);
  made_ -= entries_[index].region.size();
  discarded_.push_back(std::exchange(entries_[index].region, {}));
}

}  // namespace ferry::landing
