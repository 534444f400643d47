#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ferry/base/clock.h"

// What a program says when it opens mail rooms and mailboxes. Plain data.

namespace ferry::mail {

// Where a mailbox gets what its options leave open.
enum class TuningUse : std::uint8_t {
  kOff,      // the defaults
  kCached,   // what was measured for the path before, here or at the peer; else the defaults
  kMeasure,  // the same, but a path that nothing is known of is measured: open() takes about a
             // third of a second longer, once for a pair of hosts and a provider
};

struct MailRoomOptions {
  // Most bytes of large messages that lie here at once, over all mailboxes. One message that is
  // larger is let in alone.
  std::uint64_t budget_bytes = std::uint64_t{256} << 20;
  // Most bytes that allocate() of the room gives out.
  std::uint64_t shared_bytes = std::uint64_t{256} << 20;
  TuningUse tuning = TuningUse::kMeasure;
  // Where results are kept; empty: TuningCache::default_folder(). Without a folder, kOff.
  std::string tuning_folder{};
};

// What is not set is tuned: see Tuning for what it means, and MailRoomOptions::tuning.
struct MailboxOptions {
  std::optional<std::uint64_t> eager_threshold{};
  std::uint32_t slots = 16;  // batches that may lie here at once
  // Of each; at least 11,328. Not set: 16 KiB, or what the threshold needs. Where the path does not
  // map the peer, what leaves here eagerly fits into as much.
  std::optional<std::uint64_t> slot_bytes{};
  std::optional<std::uint64_t> chunk_bytes{};
  std::optional<std::uint32_t> chunks_in_flight{};     // at most 1,024
  std::uint32_t rendezvous = 8;                        // large messages under way from here
  std::uint64_t most_bytes = std::uint64_t{16} << 30;  // of a message that is taken here
  // Most bytes that are kept here for messages that wait to be sent: copies, and a note of each.
  // As many may be given out by allocate(). One message or buffer that is larger is let in alone.
  std::uint64_t send_bytes = std::uint64_t{256} << 20;
  bool spins = false;  // promises to wait with WaitMode::kSpin only, which spares wake-ups
  std::optional<std::uint64_t> copy_up_to{};
  std::optional<Nanos> spin{};  // of waits in the mailbox
};

}  // namespace ferry::mail
