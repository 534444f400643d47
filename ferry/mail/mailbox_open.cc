#include "ferry/mail/mail_core_internal.h"
#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_tuning_internal.h"
#include "ferry/mail/mailbox.h"

// How a mailbox comes to be. It stands above all else of the room: the tuning may be calibrated,
// and a calibration opens mailboxes of its own, with tuning off.

namespace ferry::mail {

Result<Mailbox> Mailbox::open(MailRoom& room, fabric::Device& device, fabric::Channel& channel,
                              MailboxOptions options, Deadline deadline) {
  if (&room.core_->device() != &device)
    return fail(Code::kInvalidArgument, "the mail room is of another device");
  FERRY_TRY(check_mail_options(options));
  const auto start =
      FERRY_TRY(settle_tuning(device, channel, options, room.core_->options(), deadline));
  auto setup = FERRY_TRY(MailSetup::open(device, channel, options, start, deadline));
  return Mailbox(std::make_unique<MailCore>(*room.core_, device, channel, std::move(setup)));
}

}  // namespace ferry::mail
