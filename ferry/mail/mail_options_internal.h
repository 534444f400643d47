#pragma once

#include <cstdint>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/tuning.h"

namespace ferry::mail {

// kInvalidArgument for options that cannot be.
Status check_mail_options(const MailboxOptions& options);

// Bytes of a slot. Where the user does not say: what is sent eagerly in a few parts fits.
std::uint64_t mail_slot_bytes(const MailboxOptions& options, const Tuning& tuning);

// The user's word is above everything else.
Tuning with_options(Tuning tuning, const MailboxOptions& options, const fabric::Device& device);

}  // namespace ferry::mail
