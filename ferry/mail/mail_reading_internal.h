#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_parcel_internal.h"

namespace ferry::mail {

// One read. It is planned under the lock and posted without it, since posting may copy the bytes.
struct MailChunk {
  enum class Stage : std::uint8_t { kPlanned, kPosting, kPosted };
  MailChunk* next = nullptr;  // in the list of those planned
  Stage stage = Stage::kPosted;
  bool unwanted = false;  // its message has failed meanwhile
  std::span<std::byte> to;
  fabric::RemoteAt from{fabric::RemoteRegion{}};
  fabric::Transfer transfer;
  std::optional<Error> error;
  std::uint64_t end = 0;  // of the message: what has landed once this has
  std::atomic<bool> ended{false};
};

// The reads of one large message: what was asked for, and what has ended of it. Plain state of
// MailReads, under the mailbox's lock; used again and again. It is the message's until all reads
// that were planned have ended: until then the peer's bytes go to its chunks' memory.
struct MailReading {
  MailParcel* parcel = nullptr;
  std::size_t piece = 0;         // the next to be read,
  std::uint32_t first_part = 0;  // its first part,
  std::uint64_t piece_at = 0;    // where it begins in the buffer,
  std::uint64_t piece_done = 0;  // and what was asked for of it
  std::uint64_t posted = 0;      // chunks
  std::uint64_t reaped = 0;
  std::unique_ptr<MailChunk[]> chunks;
  std::uint32_t most_chunks = 0;  // that there are: as many reads may be in flight
  std::optional<Error> asked;     // the failure that made us ask whether it was given up,
  std::uint64_t given_up = 0;     // and the sender's answer: not in the buffer, which holds bytes

  MailChunk& chunk(std::uint64_t number) { return chunks[number % most_chunks]; }
  bool in_flight() const { return posted != reaped; }
};

}  // namespace ferry::mail
