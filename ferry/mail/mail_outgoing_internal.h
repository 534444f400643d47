#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/mail/mail_record_internal.h"

namespace ferry::mail {

// A message to be sent that could not go out at once. Used again and again.
struct MailOutgoing {
  // kPreparing -> kQueued -> kAnnounced -> kEnding -> kEnded, and from any of the first three to
  // kEnding: an eager one that went out, one that expired, all of them when the mailbox breaks.
  enum class Phase : std::uint8_t {
    kPreparing,  // its memory is being made readable for the peer, without the lock
    kQueued,
    kAnnounced,
    kEnding,  // its regions are being let go of, without the lock
    kEnded,
  };
  // Whether the peer may look at its memory; also after it has ended.
  enum class Wire : std::uint8_t {
    kOff,
    kOn,    // announced, and not answered for good
    kLost,  // it was on the wire when the mailbox broke: the peer may still look
  };
  MailOutgoing* next = nullptr;  // in the queue
  std::vector<std::span<const std::byte>> parts;
  Deadline deadline;
  std::uint64_t bytes = 0;
  std::uint64_t cost = 0;  // of the bytes that may be kept for sends
  bool large = false;
  Announcement announcement;         // of a large one
  std::vector<std::size_t> buffers;  // of the pool: one share of each
  std::vector<std::size_t> room_buffers;
  std::vector<fabric::Region> regions;  // registered for this send
  std::optional<Error> error;
  Phase phase = Phase::kPreparing;
  Wire wire = Wire::kOff;
  bool held = false;               // by a handle
  std::atomic<bool> ended{false};  // phase is kEnded; for the handle, which has no lock

  bool is_over() const { return phase == Phase::kEnding || phase == Phase::kEnded; }
};

// What came of an attempt to send.
struct MailSent {
  MailOutgoing* out = nullptr;  // null: it has gone out
  std::uint64_t lacks = 0;      // not 0: it was not accepted; so many bytes are not free
};

// How a part of a large message gets to where the peer can read it.
struct MailPlace {
  enum class How : std::uint8_t { kCopy, kShared, kRegister };
  How how = How::kCopy;
  fabric::RemoteRegion remote;
  std::uint64_t offset = 0;
};

}  // namespace ferry::mail
