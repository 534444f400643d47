// Data path.
#include <cstring>

#include "ferry/fabric/tcp/inbox_internal.h"

namespace ferry::fabric::tcp {

std::byte* Inbox::reserve() {
  auto tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) == kMessageCredits) return nullptr;
  if (bytes_ == nullptr) bytes_ = std::make_unique<std::byte[]>(kMessageCredits * kMaxMessage);
  return bytes_.get() + (tail % kMessageCredits) * kMaxMessage;
}

void Inbox::commit(std::uint32_t length) {
  auto tail = tail_.load(std::memory_order_relaxed);
  lengths_[tail % kMessageCredits] = length;
  tail_.store(tail + 1, std::memory_order_release);
}

Result<std::size_t> Inbox::take(std::span<std::byte> into) {
  LockGuard<SpinLock> guard(taking_);
  auto head = head_.load(std::memory_order_relaxed);
  if (tail_.load(std::memory_order_acquire) == head)
    return fail(Code::kNotFound, "no message has arrived");
  std::size_t length = lengths_[head % kMessageCredits];
  if (length > into.size())
    return fail(Code::kResourceExhausted, "the next message has {} bytes, the buffer only {}",
                length, into.size());
  std::memcpy(into.data(), bytes_.get() + (head % kMessageCredits) * kMaxMessage, length);
  head_.store(head + 1, std::memory_order_release);
  return length;
}

}  // namespace ferry::fabric::tcp
