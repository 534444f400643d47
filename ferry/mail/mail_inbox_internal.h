// Data path.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ferry/mail/mail_list_internal.h"
#include "ferry/mail/mail_parcel_internal.h"

namespace ferry::mail {

// The messages of the peer's that the program has not taken, in the order in which they were sent;
// and all parcels, which are used again and again. Runs under the mailbox's lock.
class MailInbox {
 public:
  explicit MailInbox(ReceiveMemory& memory) : memory_(memory) {}

  MailParcel* make();
  // Nobody needs the parcel any more.
  void recycle(MailParcel* parcel) {
    give_back_memory(*parcel);
    spare_.push_back(parcel);
  }
  // What the parcel has of the room's memory.
  void give_back_memory(MailParcel& parcel) {
    if (parcel.buffer.bytes.empty()) return;
    memory_.give(std::exchange(parcel.buffer, {}).index);
    note_change();  // somebody may wait for the room
  }
  void give_back_all() {
    for (auto& parcel : all_) give_back_memory(*parcel);
  }

  const MailParcel* front() const { return list_.front(); }
  void push(MailParcel* parcel) { list_.push(parcel); }
  MailParcel* pop() { return list_.pop(); }
  // The message does not come, and those behind it do.
  void remove(MailParcel& parcel) {
    list_.remove(&parcel);
    parcel.let_go = true;
  }

  // Something has changed that threads may wait for.
  void note_change() { changed_ = true; }
  bool take_changed() { return std::exchange(changed_, false); }

 private:
  ReceiveMemory& memory_;
  MailList<MailParcel> list_;
  std::vector<std::unique_ptr<MailParcel>> all_;
  std::vector<MailParcel*> spare_;
  bool changed_ = false;
};

inline MailParcel* MailInbox::make() {
  if (spare_.empty()) {
    all_.push_back(std::make_unique<MailParcel>());
    spare_.push_back(all_.back().get());
  }
  auto* parcel = spare_.back();
  spare_.pop_back();
  parcel->handed_out = parcel->let_go = parcel->busy = false;
  parcel->reading = nullptr;
  parcel->bytes = 0;
  parcel->error.reset();
  parcel->failed.store(false, std::memory_order_relaxed);
  parcel->landed.store(MailParcel::kAllLanded, std::memory_order_relaxed);
  return parcel;
}

}  // namespace ferry::mail
