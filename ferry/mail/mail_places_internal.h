#pragma once

#include <vector>

#include "ferry/landing/buffer_pool.h"
#include "ferry/mail/mail_outgoing_internal.h"
#include "ferry/mail/mail_path_internal.h"

// What makes the memory of a large message readable for the peer. It may take long: runs without
// the mailbox's lock, by the thread that sends.

namespace ferry::mail {

// What is copied of a message.
struct MailCopies {
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;
  std::uint64_t span = 0;  // with the padding between the parts: the buffer that is needed
};
// Gives the parts that are copied their places in one buffer: neighbours lie there as they will at
// the receiver.
MailCopies lay_out_copies(MailParts parts, std::vector<MailPlace>& places);
void copy_parts(const landing::BufferPool::Buffer& buffer, MailParts parts,
                const MailCopies& copies, std::vector<MailPlace>& places);
// Registers what is neither copied nor in a buffer, and writes the announcement.
Status announce_places(const MailPath& path, MailOutgoing& out,
                       const std::vector<MailPlace>& places);

}  // namespace ferry::mail
