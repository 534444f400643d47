#pragma once

#include "ferry/mail/live_tuning_internal.h"
#include "ferry/mail/mail_options.h"
#include "ferry/mail/mail_record_internal.h"
#include "ferry/mail/room_resources_internal.h"

namespace ferry::mail {

// What both directions of a mailbox know: the way to the peer, and what was agreed when it was
// opened. Any thread: nothing in it changes but the tuning, which is lock-free.
struct MailPath {
  RoomResources& room;
  fabric::Device& device;
  fabric::Channel& channel;
  const MailboxOptions options;
  LiveTuning tuning;
  const MailHello peer;
  const bool maps;  // the peer's memory can be used as memory of this process
  // What this end uses of a slot of the peer's.
  const std::uint64_t batch_body;

  // Whether a message goes into a slot together with its bytes, rather than announced.
  bool is_eager(MailParts parts, std::uint64_t bytes) const {
    return bytes <= tuning.eager_threshold() &&
           eager_record_bytes(parts) <= batch_body - MailBatch::kBytes;
  }
  Error closed_error() const {
    return fail(Code::kUnavailable, "the peer at {} has closed its mailbox",
                channel.peer_endpoint())
        .value();
  }
};

}  // namespace ferry::mail
