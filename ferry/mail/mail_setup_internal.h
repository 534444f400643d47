#pragma once

#include <algorithm>
#include <vector>

#include "ferry/landing/landing.h"
#include "ferry/landing/launch.h"
#include "ferry/landing/remote_word.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/mail_record_internal.h"

namespace ferry::mail {

// What a mailbox is made of when both ends have said hello.
struct MailSetup {
  MailboxOptions options;
  Tuning tuning;
  TuningSource source = TuningSource::kDefault;
  MailHello peer;
  landing::Landing landing;
  landing::Launch launch;
  fabric::Region staging;  // where the path does not map the peer
  fabric::Region words;
  std::vector<landing::RemoteWord> peer_words;
  landing::RemoteWord closed_word;

  // Makes this end, says hello and hears the peer's. Both ends call it; waits for the other.
  static Result<MailSetup> open(fabric::Device& device, fabric::Channel& channel,
                                const MailboxOptions& options, const MailStart& start,
                                Deadline deadline);
  // What this end uses of the peer's slots, and of how many at once where it needs memory of its
  // own for them: no more than it has itself, whatever the peer says that it has.
  std::uint64_t batch_body() const;
  std::uint32_t stages() const { return std::min(options.slots, peer.slots); }
};

}  // namespace ferry::mail
