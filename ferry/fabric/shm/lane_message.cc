// Data path.
#include <cstring>

#include "ferry/fabric/shm/lane_internal.h"

// Messages go through a ring of their own, which the receiver's program empties. A record begins
// with the number of the last stream request posted before it: the message is not shown before that
// one is served, so messages stay behind what was posted before them.

namespace ferry::fabric::shm {

namespace {
constexpr std::size_t kHeader = sizeof(std::uint64_t);
}

Result<bool> ShmLane::put_message(const MessageScratch& message) {
  auto room = FERRY_TRY(wires_->messages_out.reserve(kHeader + message.length));
  if (room.empty()) return false;
  std::memcpy(room.data(), &message.after, kHeader);
  if (message.length != 0) std::memcpy(room.data() + kHeader, message.bytes, message.length);
  wires_->messages_out.commit();
  return true;
}

Transfer ShmLane::post_message(Request& request) {
  MessageScratch message{request.local, request.length, wires_->sender.issued()};
  {
    LockGuard<SpinLock> guard(wires_->out_lock);
    auto put = wires_->waiting_first != nullptr ? Result<bool>(false) : put_message(message);
    if (!put) {
      broken(put.error());
      return Transfer::failed(put.error());
    }
    if (*put) {
      peer_->wake_flag_sleepers(wires_->peer_loop);
      return Transfer::done();
    }
  }
  Operation* op = shared_->context->operations->make(request, loop());
  op->scratch<MessageScratch>() = message;
  op->next = nullptr;
  bool closed = false;
  {
    LockGuard<SpinLock> guard(wires_->out_lock);
    closed = wires_->out_closed;
    if (!closed) {
      (wires_->waiting_first == nullptr ? wires_->waiting_first : wires_->waiting_last->next) = op;
      wires_->waiting_last = op;
      wires_->messages_wait.store(true, std::memory_order_relaxed);
      wires_->outward.wants_room.store(1, std::memory_order_relaxed);
    }
  }
  if (closed) {
    op->finish(tl::unexpected<Error>(cause()));
  } else {
    heavy_fence();  // the word is seen by whoever takes a message from now on
    source_.activate(index_);
    put_waiting_messages();
  }
  return Transfer::pending(op);
}

int ShmLane::put_waiting_messages() {
  int count = 0;
  Operation* done = nullptr;
  Operation** tail = &done;
  {
    LockGuard<SpinLock> guard(wires_->out_lock);
    while (Operation* op = wires_->waiting_first) {
      auto put = put_message(op->scratch<MessageScratch>());
      if (!put) broken(put.error());
      if (!put || !*put) break;
      wires_->waiting_first = std::exchange(op->next, nullptr);
      *tail = op;
      tail = &op->next;
      ++count;
    }
    if (wires_->waiting_first == nullptr) {
      wires_->messages_wait.store(false, std::memory_order_relaxed);
      wires_->outward.wants_room.store(0, std::memory_order_relaxed);
    }
  }
  if (count > 0) peer_->wake_flag_sleepers(wires_->peer_loop);
  while (done != nullptr) {
    auto* op = done;
    done = std::exchange(op->next, nullptr);
    op->finish({});
  }
  return count;
}

void ShmLane::end_messages(std::int64_t now, const Error* cause) {
  Operation* ended = nullptr;
  {
    LockGuard<SpinLock> guard(wires_->out_lock);
    if (cause != nullptr) wires_->out_closed = true;
    Operation* all = std::exchange(wires_->waiting_first, nullptr);
    while (all != nullptr) {
      Operation* op = all;
      all = std::exchange(op->next, nullptr);
      bool ends = cause != nullptr || op->cancel_asked() || op->deadline().ns() <= now;
      if (ends) {
        op->next = ended;
        ended = op;
      } else {
        (wires_->waiting_first == nullptr ? wires_->waiting_first : wires_->waiting_last->next) =
            op;
        wires_->waiting_last = op;
      }
    }
    wires_->messages_wait.store(wires_->waiting_first != nullptr, std::memory_order_relaxed);
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

// Empty: none, or one that is still behind what was posted before it.
Result<std::span<const std::byte>> ShmLane::front_message() const {
  auto record = FERRY_TRY(wires_->messages_in.front());
  if (record.empty()) return record;
  if (record.size() < kHeader || record.size() > kHeader + kMaxMessage)
    return fail(Code::kDataLoss, "a message record of {} bytes", record.size());
  std::uint64_t after = 0;
  std::memcpy(&after, record.data(), kHeader);
  if (after > wires_->server.served()) return std::span<const std::byte>();
  return record;
}

bool ShmLane::has_message() const {
  if (wires_ == nullptr) return false;
  LockGuard<SpinLock> guard(wires_->in_lock);
  auto record = front_message();
  return !record || !record->empty();
}

Result<std::size_t> ShmLane::take_message(std::span<std::byte> into) {
  if (wires_ == nullptr) return tl::unexpected<Error>(cause());
  std::size_t size = 0;
  {
    LockGuard<SpinLock> guard(wires_->in_lock);
    auto record = front_message();
    if (!record) {
      broken(record.error());
      return tl::unexpected<Error>(record.error());
    }
    if (record->empty()) return fail(Code::kNotFound, "no message has arrived");
    auto bytes = record->subspan(kHeader);
    if (bytes.size() > into.size())
      return fail(Code::kResourceExhausted, "a message of {} bytes does not fit into {}",
                  bytes.size(), into.size());
    size = bytes.size();
    if (size != 0) std::memcpy(into.data(), bytes.data(), size);
    wires_->messages_in.pop();
  }
  light_fence();
  if (wires_->inward.wants_room.load(std::memory_order_relaxed) != 0)
    peer_->wake_any(wires_->peer_loop);
  return size;
}

}  // namespace ferry::fabric::shm
