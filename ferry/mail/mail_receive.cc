// Data path.
#include "ferry/mail/mail_core_internal.h"

// What a program asks of a mailbox that receives.

namespace ferry::mail {

Result<MailParcel*> MailCore::take_next(bool begun) {
  Guard guard(*this);
  progress_locked();
  if (auto* parcel = inbound_.take_next(begun)) {
    inbound_.update_front(broken_.has_value());
    return parcel;
  }
  if (broken_ && inbound_.is_over()) return tl::unexpected<Error>(*broken_);
  return nullptr;
}

Result<MailParcel*> MailCore::wait_next(bool begun, Deadline deadline, fabric::WaitMode mode) {
  const auto& flag = begun ? in_.begun : in_.ready;
  auto there = [&flag] { return flag.load(std::memory_order_acquire); };
  for (bool last = false;;) {
    if (auto* parcel = FERRY_TRY(take_next(begun))) return parcel;
    if (last)
      return fail(Code::kDeadlineExceeded, "no message came from {} in time",
                  path_.channel.peer_endpoint());
    last = !await(there, deadline, mode);
  }
}

Status MailCore::wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                             fabric::WaitMode mode) {
  auto there = [&parcel, span] { return parcel.reached(span); };
  for (bool last = false;;) {
    if (parcel.landed.load(std::memory_order_acquire) >= span) return {};
    if (parcel.failed.load(std::memory_order_acquire)) {
      Guard guard(*this);
      return tl::unexpected<Error>(*parcel.error);
    }
    if (last)
      return fail(Code::kDeadlineExceeded, "a message from {} did not land in time",
                  path_.channel.peer_endpoint());
    last = !await(there, deadline, mode);
    progress();
  }
}

Status MailCore::let_go(MailParcel* parcel) {
  Guard guard(*this);
  if (parcel->reading == nullptr) return inbound_.release(parcel);
  parcel->let_go = true;  // its reads end first
  continue_reads();
  inbound_.update_front(broken_.has_value());
  return {};
}

}  // namespace ferry::mail
