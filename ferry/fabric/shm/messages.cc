// Data path.
#include <cstring>
#include <utility>

#include "ferry/fabric/shm/messages_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr std::size_t kHeader = sizeof(std::uint64_t);
}

Result<bool> MessageSender::put(const Message& message) {
  auto room = FERRY_TRY(ring_.reserve(kHeader + message.length));
  if (room.empty()) return false;
  std::memcpy(room.data(), &message.after, kHeader);
  if (message.length != 0) std::memcpy(room.data() + kHeader, message.bytes, message.length);
  ring_.commit();
  return true;
}

Result<bool> MessageSender::try_put(const Message& message) {
  LockGuard<SpinLock> guard(lock_);
  return first_ != nullptr ? Result<bool>(false) : put(message);
}

void MessageSender::append(Operation* op) {
  (first_ == nullptr ? first_ : last_->next) = op;
  last_ = op;
}

bool MessageSender::add(Operation* op, const Message& message) {
  op->scratch<Message>() = message;
  op->next = nullptr;
  LockGuard<SpinLock> guard(lock_);
  if (closed_) return false;
  append(op);
  waits_.store(true, std::memory_order_relaxed);
  wants_room_.store(1, std::memory_order_relaxed);
  return true;
}

MessageSender::Sent MessageSender::put_waiting() {
  Sent sent;
  Operation** tail = &sent.first;
  LockGuard<SpinLock> guard(lock_);
  while (Operation* op = first_) {
    auto done = put(op->scratch<Message>());
    if (!done) sent.error = done.error();
    if (!done || !*done) break;
    first_ = std::exchange(op->next, nullptr);
    *tail = op;
    tail = &op->next;
    ++sent.count;
  }
  if (first_ == nullptr) {
    waits_.store(false, std::memory_order_relaxed);
    wants_room_.store(0, std::memory_order_relaxed);
  }
  return sent;
}

void MessageSender::Sent::finish() {
  while (first != nullptr) {
    auto* op = first;
    first = std::exchange(op->next, nullptr);
    op->finish({});
  }
}

void MessageSender::end(std::int64_t now, const Error* cause) {
  Operation* ended = nullptr;
  {
    LockGuard<SpinLock> guard(lock_);
    if (cause != nullptr) closed_ = true;
    Operation* all = std::exchange(first_, nullptr);
    while (all != nullptr) {
      Operation* op = all;
      all = std::exchange(op->next, nullptr);
      if (cause != nullptr || op->cancel_asked() || op->deadline().ns() <= now) {
        op->next = ended;
        ended = op;
      } else {
        append(op);
      }
    }
    waits_.store(first_ != nullptr, std::memory_order_relaxed);
  }
  while (ended != nullptr) {
    auto* op = ended;
    ended = std::exchange(op->next, nullptr);
    if (cause != nullptr) {
      op->finish(tl::unexpected<Error>(*cause));
    } else if (op->cancel_asked()) {
      op->finish(fail(Code::kCancelled, "the message was cancelled"));
    } else {
      op->finish(fail(Code::kDeadlineExceeded, "the peer takes no messages; its ring is full"));
    }
  }
}

Result<std::span<const std::byte>> MessageReceiver::front() const {
  auto record = FERRY_TRY(ring_.front());
  if (record.empty()) return record;
  if (record.size() < kHeader || record.size() > kHeader + kMaxMessage)
    return fail(Code::kDataLoss, "a message record of {} bytes", record.size());
  std::uint64_t after = 0;
  std::memcpy(&after, record.data(), kHeader);
  if (after > server_.served()) return std::span<const std::byte>();
  return record;
}

bool MessageReceiver::has_message() const {
  LockGuard<SpinLock> guard(lock_);
  auto record = front();
  return !record || !record->empty();
}

Result<std::size_t> MessageReceiver::take(std::span<std::byte> into) {
  LockGuard<SpinLock> guard(lock_);
  auto record = FERRY_TRY(front());
  if (record.empty()) return fail(Code::kNotFound, "no message has arrived");
  auto bytes = record.subspan(kHeader);
  if (bytes.size() > into.size())
    return fail(Code::kResourceExhausted, "a message of {} bytes does not fit into {}",
                bytes.size(), into.size());
  if (!bytes.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
  ring_.pop();
  return bytes.size();
}

}  // namespace ferry::fabric::shm
