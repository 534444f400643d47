// Data path.
#include "ferry/mail/mail_engine_internal.h"

// What a program asks of a mailbox that receives.

namespace ferry::mail {

Result<MailParcel*> MailEngine::take_next(bool begun) {
  Guard guard(*this);
  progress_locked();
  if (auto* parcel = inbound_.take_next(begun)) {
    inbound_.update_front(broken_.has_value());
    return parcel;
  }
  if (broken_ && inbound_.is_over()) return tl::unexpected<Error>(*broken_);
  return nullptr;
}

tl::unexpected<Error> MailEngine::failure_of(const MailParcel& parcel) {
  Guard guard(*this);
  return tl::unexpected<Error>(*parcel.error);
}

Status MailEngine::let_go(MailParcel* parcel) {
  Guard guard(*this);
  if (parcel->reading == nullptr) return inbound_.release(parcel);
  parcel->let_go = true;  // its reads end first
  continue_reads();
  inbound_.update_front(broken_.has_value());
  return {};
}

}  // namespace ferry::mail
