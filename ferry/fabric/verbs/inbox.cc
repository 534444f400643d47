// Data path.
#include <cstring>
#include <utility>

#include "ferry/fabric/verbs/inbox_internal.h"

namespace ferry::fabric::verbs {

Inbox::~Inbox() {
  LockGuard<SpinLock> guard(lock_);
  while (oldest_ != nullptr) buffers_.give(std::exchange(oldest_, oldest_->next));
}

bool Inbox::put(Buffer* buffer) {
  LockGuard<SpinLock> guard(lock_);
  (newest_ == nullptr ? oldest_ : newest_->next) = buffer;
  buffer->next = nullptr;
  newest_ = buffer;
  return messages_.fetch_add(1, std::memory_order_release) < kLaneCredits;
}

Result<std::size_t> Inbox::take(std::span<std::byte> into) {
  Buffer* buffer = nullptr;
  {
    LockGuard<SpinLock> guard(lock_);
    if (oldest_ == nullptr) return fail(Code::kNotFound, "no message has arrived");
    if (oldest_->length > into.size())
      return fail(Code::kResourceExhausted, "the message has {} bytes, the buffer {}",
                  oldest_->length, into.size());
    buffer = std::exchange(oldest_, oldest_->next);
    if (oldest_ == nullptr) newest_ = nullptr;
    messages_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::size_t length = buffer->length;
  std::memcpy(into.data(), buffer->data, length);
  buffers_.give(buffer);
  return length;
}

}  // namespace ferry::fabric::verbs
