#include "ferry/mail/room_memory_internal.h"

namespace ferry::mail {

Result<landing::BufferPool::Buffer> RoomMemory::take(std::uint64_t bytes) {
  {
    LockGuard<SpinLock> guard(lock_);
    if (bytes > most_ || given_ > most_ - bytes)
      return fail(
          Code::kResourceExhausted,
          "{} bytes for messages to any peer are in use; {} more would be over the limit of {}",
          given_, bytes, most_);
    given_ += bytes;
  }
  auto buffer = pool_.take(bytes);
  LockGuard<SpinLock> guard(lock_);
  if (!buffer) {
    given_ -= bytes;
    return buffer;
  }
  if (entries_.size() <= buffer->index) entries_.resize(buffer->index + 1);
  entries_[buffer->index] = {*buffer, 1, bytes};
  by_begin_[buffer->bytes.data()] = buffer->index;
  return buffer;
}

void RoomMemory::unshare(std::size_t index, bool lost) {
  {
    LockGuard<SpinLock> guard(lock_);
    auto& entry = entries_[index];
    entry.lost = entry.lost || lost;
    if (--entry.shares != 0) return;
    given_ -= std::exchange(entry.given, 0);
    lost = entry.lost;
    if (lost) by_begin_.erase(entry.buffer.bytes.data());
  }
  if (lost)
    pool_.discard(index);
  else
    pool_.give(index);
}

std::optional<RoomMemory::Found> RoomMemory::find(std::span<const std::byte> bytes) {
  LockGuard<SpinLock> guard(lock_);
  return find_locked(bytes);
}

std::optional<std::size_t> RoomMemory::share(std::span<const std::byte> bytes) {
  LockGuard<SpinLock> guard(lock_);
  const auto found = find_locked(bytes);
  if (!found) return std::nullopt;
  ++entries_[found->index].shares;
  return found->index;
}

std::optional<RoomMemory::Found> RoomMemory::find_locked(std::span<const std::byte> bytes) {
  auto after = by_begin_.upper_bound(bytes.data());
  if (bytes.empty() || after == by_begin_.begin()) return std::nullopt;
  const auto& entry = entries_[std::prev(after)->second];
  const auto& all = entry.buffer.bytes;
  if (entry.shares == 0 || bytes.data() + bytes.size() > all.data() + all.size())
    return std::nullopt;
  return Found{entry.buffer.index, entry.buffer.remote,
               static_cast<std::uint64_t>(bytes.data() - all.data())};
}

}  // namespace ferry::mail
