#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/receive_memory_internal.h"
#include "ferry/mail/room_memory_internal.h"

namespace ferry::mail {

// The threads that wait in a room, counted: who waits counts itself before it looks at its
// condition; who changes a condition wakes the waiters, and sees their count or is seen. Any
// thread, no lock.
class RoomWaiters {
 public:
  explicit RoomWaiters(fabric::Device& device) : device_(device) {}
  void add() { count_.fetch_add(1, std::memory_order_seq_cst); }
  void remove() { count_.fetch_sub(1, std::memory_order_relaxed); }
  void wake() {
    if (count_.fetch_add(0, std::memory_order_seq_cst) != 0) device_.wake_waiters();
  }

 private:
  fabric::Device& device_;
  std::atomic<std::uint32_t> count_{0};
};

// What the mailboxes of a room share, and all that they know of it. Thread-safe.
struct RoomResources {
  RoomResources(fabric::Device& device, const MailRoomOptions& options)
      : receive_memory(device, options.budget_bytes),
        buffers(device, options.shared_bytes),
        waiters(device) {}

  ReceiveMemory receive_memory;
  RoomMemory buffers;  // that messages are sent from
  RoomWaiters waiters;
};

}  // namespace ferry::mail
