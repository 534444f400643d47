// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {

// What an operation of this provider remembers in its scratch: its header, ready but for what is
// known only when it is sent, and its bytes.
struct Job {
  Header header;
  std::byte* local;
  std::uint64_t queue_number;  // when it was queued, among those of its lane
};

// Our requests that the peer knows of, by id. The one who sends inserts; the token's holder, who
// receives, owns an entry from when its last byte was sent until it is done.
class Window {
 public:
  struct Entry {
    Operation* op = nullptr;  // null: ended early, or given up; what still comes is dropped
    std::byte* local = nullptr;
    std::uint64_t length = 0;
    std::uint64_t received = 0;
    FrameType type = FrameType::kNop;
    bool open = false;
  };

  // For the one who sends.
  bool has_room() const { return last() - done_.load(std::memory_order_acquire) < kWindow; }
  std::uint64_t insert(Operation* op, const Header& header, std::byte* local) {
    auto id = last() + 1;
    entry(id) = Entry{op, local, header.length, 0, header.kind(), true};
    last_.store(id, std::memory_order_relaxed);
    return id;
  }
  void sent_through(std::uint64_t id) { sent_.store(id, std::memory_order_release); }

  std::uint64_t last() const { return last_.load(std::memory_order_relaxed); }
  std::uint64_t sent() const { return sent_.load(std::memory_order_acquire); }

  // For the token's holder.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  void done_through(std::uint64_t id) { done_.store(id, std::memory_order_release); }
  Entry& entry(std::uint64_t id) { return entries_[id % kWindow]; }

 private:
  std::array<Entry, kWindow> entries_;
  std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace ferry::fabric::tcp
