#include <algorithm>

#include "ferry/mail/receive_memory_internal.h"

namespace ferry::mail {

namespace {
// Sizes that differ a little share buffers.
std::uint64_t mail_capacity(std::uint64_t bytes) {
  auto grain = bytes < (1 << 20) ? std::uint64_t{64} << 10 : std::uint64_t{1} << 20;
  return align_up(std::max<std::uint64_t>(bytes, 1), grain);
}
}  // namespace

Result<std::optional<ReceiveMemory::Buffer>> ReceiveMemory::take(MemoryWaiter& who,
                                                                 std::uint64_t bytes) {
  LockGuard<Mutex> guard(lock_);
  bool first = line_.empty() || line_.front() == &who;
  if (first) {
    auto taken = take_memory(bytes);
    if (!taken || *taken) {  // also one that is refused makes way
      if (!line_.empty()) line_.pop_front();
      crowded_ = !line_.empty();
      call_next();
      return taken;
    }
  }
  if (!in_line(who)) line_.push_back(&who);
  crowded_ = true;
  return std::optional<Buffer>();
}

Result<std::optional<ReceiveMemory::Buffer>> ReceiveMemory::take_memory(std::uint64_t bytes) {
  auto capacity = mail_capacity(bytes);
  // One that is larger than the budget comes in alone.
  if (busy_bytes_ != 0 && busy_bytes_ + capacity > budget_) return std::optional<Buffer>();
  auto most = std::max(budget_, capacity) - busy_bytes_;
  auto index = find_idle(bytes, std::min(most, capacity * 2));
  if (!index) {
    free_idle(capacity);
    auto made = make_entry(capacity);
    if (!made && idle_bytes_ != 0) {
      free_idle(budget_);
      made = make_entry(capacity);
    }
    if (!made && busy_bytes_ != 0) return std::optional<Buffer>();  // what is in use comes back
    index = FERRY_TRY(std::move(made));
  }
  auto& entry = entries_[*index];
  entry.busy = true;
  idle_bytes_ -= entry.region.size();
  busy_bytes_ += entry.region.size();
  return Buffer{*index, entry.region.bytes()};
}

std::optional<std::size_t> ReceiveMemory::find_idle(std::uint64_t bytes, std::uint64_t most) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto& entry = entries_[i];
    auto size = entry.region ? entry.region.size() : 0;
    if (entry.busy || size < bytes || size == 0 || size > most) continue;
    if (!best || size < entries_[*best].region.size()) best = i;
  }
  return best;
}

void ReceiveMemory::free_idle(std::uint64_t wanted) {
  for (auto& entry : entries_) {
    if (busy_bytes_ + idle_bytes_ + wanted <= budget_) return;
    if (entry.busy || !entry.region) continue;
    idle_bytes_ -= entry.region.size();
    entry.region.reset();
  }
}

Result<std::size_t> ReceiveMemory::make_entry(std::uint64_t bytes) {
  auto region = FERRY_TRY(device_.allocate(bytes, fabric::Rights::kRead));
  idle_bytes_ += region.size();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].region) continue;
    entries_[i].region = std::move(region);
    return i;
  }
  entries_.push_back({std::move(region), false});
  return entries_.size() - 1;
}

void ReceiveMemory::give(std::size_t index) {
  LockGuard<Mutex> guard(lock_);
  auto& entry = entries_[index];
  auto size = entry.region.size();
  busy_bytes_ -= size;
  entry.busy = false;
  if (busy_bytes_ + idle_bytes_ + size > budget_) {
    entry.region.reset();
  } else {
    idle_bytes_ += size;
  }
  call_next();
}

bool ReceiveMemory::in_line(const MemoryWaiter& who) const {
  return std::find(line_.begin(), line_.end(), &who) != line_.end();
}

void ReceiveMemory::call_next() {
  if (!line_.empty()) line_.front()->may_ask.store(true, std::memory_order_release);
}

void ReceiveMemory::leave_line(MemoryWaiter& who) {
  LockGuard<Mutex> guard(lock_);
  std::erase(line_, &who);
  crowded_ = !line_.empty();
  call_next();
}

std::uint64_t ReceiveMemory::in_use() const {
  LockGuard<Mutex> guard(lock_);
  return busy_bytes_;
}

}  // namespace ferry::mail
