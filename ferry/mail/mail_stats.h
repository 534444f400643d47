#pragma once

#include <cstdint>

namespace ferry::mail {

// What one mailbox did, counted.
struct MailStats {
  std::uint64_t sent = 0;          // messages that left, announced or whole
  std::uint64_t batches = 0;       // slots that were filled
  std::uint64_t eager_bytes = 0;   // of messages in them
  std::uint64_t announced = 0;     // large messages of this end
  std::uint64_t registered = 0;    // parts that were registered for one send
  std::uint64_t copies = 0;        // parts of large messages that were copied before sending
  std::uint64_t copied_bytes = 0;  // in them
  std::uint64_t received = 0;      // messages that were handed out
  std::uint64_t in_place = 0;      // of these: used in the sender's memory
  std::uint64_t heard = 0;         // announcements of the peer's
  std::uint64_t reads = 0;         // of chunks
  std::uint64_t refused = 0;       // of the announcements heard: not taken
};

}  // namespace ferry::mail
