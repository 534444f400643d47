#pragma once

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/mail_options.h"

namespace ferry::mail {

// Finds out what the options leave open: from the cache, from the peer, by a calibration with it,
// or from the defaults. Both ends call it, unless they are off.
Result<MailStart> settle_tuning(fabric::Device& device, fabric::Channel& channel,
                                const MailboxOptions& options, const MailRoomOptions& room,
                                Deadline deadline);

}  // namespace ferry::mail
