#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/room_memory_internal.h"

namespace ferry::mail {

class MailCore;

// A mailbox in the line for memory of the room.
struct RoomWaiter {
  std::atomic<bool> may_ask{false};  // there may be memory for it now
};

// What the mailboxes of one device share: memory for large messages, handed out in the order in
// which it was asked for, one message of each mailbox at a time; and the list of mailboxes, for
// those who wait. Thread-safe. Its locks come after a mailbox's.
class RoomCore {
 public:
  RoomCore(fabric::Device& device, const MailRoomOptions& options)
      : device_(device), options_(options), shared_(device, options.shared_bytes) {}

  fabric::Device& device() { return device_; }
  RoomMemory& shared() { return shared_; }
  const MailRoomOptions& options() const { return options_; }

  struct Buffer {
    std::size_t index = 0;
    std::span<std::byte> bytes;
  };
  // Nothing when there is no room now: the mailbox is in line, and `may_ask` is set when it may ask
  // again. A failure is the device's.
  Result<std::optional<Buffer>> take(RoomWaiter& who, std::uint64_t bytes);
  void give(std::size_t index);
  // The mailbox asks no more for now.
  void leave_line(RoomWaiter& who);
  std::uint64_t in_use() const;
  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

  void join(MailCore& who);
  // No progress_others() is in the mailbox afterwards.
  void leave(MailCore& who);
  // Whether any mailbox has something to do, lock-free as to the mailboxes.
  bool may_be_ready();
  void progress_others(const MailCore* self);

  // Waits until ready(), or a mailbox has something to do. Sends whose deadlines come meanwhile are
  // ended, which is something to look at too. False: the wait's own deadline came first.
  template <class Ready>
  bool wait(Ready ready, Deadline deadline, fabric::WaitMode mode, std::optional<Nanos> spin = {}) {
    auto first = first_expiry();
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    bool came = device_.wait_until([&] { return ready() || may_be_ready(); },
                                   std::min(deadline, first), mode, spin);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (came || !(first < deadline)) return came;
    expire_due();
    return true;
  }
  // Threads that wait count themselves before they look at their condition. Whoever changes a
  // condition tells them, and sees their count or is seen.
  void tell() {
    if (waiting_.fetch_add(0, std::memory_order_seq_cst) != 0) device_.wake_waiters();
  }
  // Where wait_any() begins to look.
  std::size_t next_box() { return boxes_served_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Entry {
    fabric::Region region;
    bool busy = false;
  };
  Result<std::optional<Buffer>> take_memory(std::uint64_t bytes) FERRY_REQUIRES(memory_lock_);
  std::optional<std::size_t> find_idle(std::uint64_t bytes, std::uint64_t most)
      FERRY_REQUIRES(memory_lock_);
  void free_idle(std::uint64_t wanted) FERRY_REQUIRES(memory_lock_);
  Result<std::size_t> make_entry(std::uint64_t bytes) FERRY_REQUIRES(memory_lock_);
  bool in_line(const RoomWaiter& who) const FERRY_REQUIRES(memory_lock_);
  template <class Wanted, class Visit>
  void visit_boxes(Wanted wanted, Visit visit);
  // Of all sends that have not ended.
  Deadline first_expiry();
  void expire_due();
  void call_next() FERRY_REQUIRES(memory_lock_);

  fabric::Device& device_;
  const MailRoomOptions options_;
  RoomMemory shared_;
  mutable Mutex memory_lock_;
  std::vector<Entry> entries_ FERRY_GUARDED_BY(memory_lock_);
  std::uint64_t busy_bytes_ FERRY_GUARDED_BY(memory_lock_) = 0;
  std::uint64_t idle_bytes_ FERRY_GUARDED_BY(memory_lock_) = 0;
  std::deque<RoomWaiter*> line_ FERRY_GUARDED_BY(memory_lock_);
  std::atomic<bool> crowded_{false};  // it is not empty

  SpinLock list_lock_;
  std::vector<MailCore*> boxes_ FERRY_GUARDED_BY(list_lock_);
  std::atomic<std::uint32_t> waiting_{0};
  std::atomic<std::size_t> boxes_served_{0};
};

}  // namespace ferry::mail
