#include <sched.h>

#include <algorithm>
#include <limits>

#include "ferry/mail/mail_room_internal.h"

namespace ferry::mail {

void RoomCore::join(MailEngine& who) {
  LockGuard<SpinLock> guard(list_lock_);
  boxes_.push_back(&who);
}

void RoomCore::leave(MailEngine& who) {
  {
    LockGuard<SpinLock> guard(list_lock_);
    std::erase(boxes_, &who);
  }
  while (who.pins.load(std::memory_order_acquire) != 0) sched_yield();
}

Deadline RoomCore::first_expiry() {
  LockGuard<SpinLock> guard(list_lock_);
  auto first = Deadline::at_ns(std::numeric_limits<std::int64_t>::max());
  for (const auto* box : boxes_) first = std::min(first, box->signals().first_expiry());
  return first;
}

bool RoomCore::may_be_ready() {
  LockGuard<SpinLock> guard(list_lock_);
  return std::any_of(boxes_.begin(), boxes_.end(),
                     [](MailEngine* box) { return box->signals().may_be_ready(); });
}

template <class Wanted, class Visit>
void RoomCore::visit_boxes(Wanted wanted, Visit visit) {
  for (std::size_t i = 0;; ++i) {
    MailEngine* box = nullptr;
    {
      LockGuard<SpinLock> guard(list_lock_);
      while (i < boxes_.size() && !wanted(*boxes_[i])) ++i;
      if (i >= boxes_.size()) return;
      box = boxes_[i];
      box->pins.fetch_add(1, std::memory_order_acquire);
    }
    visit(*box);
    box->pins.fetch_sub(1, std::memory_order_release);
  }
}

void RoomCore::progress_others(const MailEngine* self) {
  visit_boxes(
      [self](const MailEngine& box) { return &box != self && box.signals().may_be_ready(); },
      [](MailEngine& box) { box.progress(); });
}

void RoomCore::expire_due() {
  visit_boxes([](const MailEngine& box) { return box.signals().first_expiry().expired(); },
              [](MailEngine& box) { box.expire_due(); });
}

}  // namespace ferry::mail
