#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/mail_engine_internal.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/room_resources_internal.h"

namespace ferry::mail {

// The mailboxes of one device: what they share, and the list of them, for those who wait: whoever
// waits for one makes progress on all. Thread-safe. Its lock comes after a mailbox's.
class RoomCore {
 public:
  RoomCore(fabric::Device& device, const MailRoomOptions& options)
      : device_(device), options_(options), resources_(device, options) {}

  fabric::Device& device() { return device_; }
  RoomResources& resources() { return resources_; }
  const MailRoomOptions& options() const { return options_; }

  void join(MailEngine& who);
  // No progress_others() is in the mailbox afterwards.
  void leave(MailEngine& who);
  // Whether any mailbox has something to do, lock-free as to the mailboxes.
  bool may_be_ready();
  void progress_others(const MailEngine* self);

  // Waits until ready(), or a mailbox has something to do. Sends whose deadlines come meanwhile are
  // ended, which is something to look at too. False: the wait's own deadline came first.
  template <class Ready>
  bool wait(Ready ready, Deadline deadline, fabric::WaitMode mode, std::optional<Nanos> spin = {}) {
    auto first = first_expiry();
    resources_.waiters.add();
    bool came = device_.wait_until([&] { return ready() || may_be_ready(); },
                                   std::min(deadline, first), mode, spin);
    resources_.waiters.remove();
    if (came || !(first < deadline)) return came;
    expire_due();
    return true;
  }
  // Where wait_any() begins to look.
  std::size_t next_box() { return boxes_served_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // Calls `visit` without the list's lock for each mailbox of the room that `wanted` says yes to;
  // the mailbox stays meanwhile.
  template <class Wanted, class Visit>
  void visit_boxes(Wanted wanted, Visit visit);
  // The first deadline of all sends of the room that have not ended.
  Deadline first_expiry();
  // Ends the sends of all mailboxes whose deadlines have come.
  void expire_due();

  fabric::Device& device_;
  const MailRoomOptions options_;
  RoomResources resources_;

  SpinLock list_lock_;
  std::vector<MailEngine*> boxes_ FERRY_GUARDED_BY(list_lock_);
  std::atomic<std::size_t> boxes_served_{0};
};

}  // namespace ferry::mail
