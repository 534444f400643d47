// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "ferry/base/spin.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/shm/stream_internal.h"
#include "ferry/memory/ring.h"

// Messages go through a ring of their own, which the receiver's program empties. A record begins
// with the number of the last stream request posted before it: the message is not shown before that
// one is served, so messages stay behind what was posted before them.

namespace ferry::fabric::shm {

inline constexpr std::size_t kMaxMessage = 4096;

// The sending end of one lane's messages: the ring, and the messages for which it has no room, in
// order. Thread-safe.
class MessageSender {
 public:
  // What the sender remembers of a message that waits, in Operation::scratch().
  struct Message {
    const std::byte* bytes;
    std::uint64_t length;
    std::uint64_t after;  // of the stream request that it stays behind
  };
  // Messages that left the queue, and the error that stopped it, if the ring is broken.
  struct Sent {
    int count = 0;
    Operation* first = nullptr;
    std::optional<Error> error;
    void finish();  // ends their operations
  };

  // `wants_room` tells the peer that somebody waits.
  MessageSender(memory::RingWriter ring, std::atomic<std::uint32_t>& wants_room)
      : ring_(ring), wants_room_(wants_room) {}

  // False: there is no room, or others wait already. An error: the peer has broken the ring.
  Result<bool> try_put(const Message& message);
  // The message waits for room from now on; false after close(). The caller then fences and calls
  // put_waiting().
  bool add(Operation* op, const Message& message);
  Sent put_waiting();
  bool waits() const { return waits_.load(std::memory_order_relaxed); }
  // Ends waiting messages that are expired or cancelled; close() all of them, for ever.
  void expire(std::int64_t now) { end(now, nullptr); }
  void close(const Error& cause) { end(0, &cause); }

 private:
  Result<bool> put(const Message& message) FERRY_REQUIRES(lock_);
  void append(Operation* op) FERRY_REQUIRES(lock_);
  void end(std::int64_t now, const Error* cause);

  SpinLock lock_;
  memory::RingWriter ring_ FERRY_GUARDED_BY(lock_);
  Operation* first_ FERRY_GUARDED_BY(lock_) = nullptr;
  Operation* last_ FERRY_GUARDED_BY(lock_) = nullptr;
  bool closed_ FERRY_GUARDED_BY(lock_) = false;
  std::atomic<bool> waits_{false};
  std::atomic<std::uint32_t>& wants_room_;
};

// The receiving end. Thread-safe.
class MessageReceiver {
 public:
  // `server` says which stream requests were served.
  MessageReceiver(memory::RingReader ring, const StreamServer& server)
      : server_(server), ring_(ring) {}

  // Also true if the ring is broken, so that take() tells.
  bool has_message() const;
  // The oldest message: its size. kNotFound: none; kResourceExhausted: it does not fit, and stays;
  // kDataLoss: the peer has broken the ring.
  Result<std::size_t> take(std::span<std::byte> into);

 private:
  // Empty: none, or one that is still behind what was posted before it.
  Result<std::span<const std::byte>> front() const FERRY_REQUIRES(lock_);

  const StreamServer& server_;
  mutable SpinLock lock_;
  mutable memory::RingReader ring_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric::shm
