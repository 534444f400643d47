#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/interop/grpc_endpoint/options_internal.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/mailbox.h"

namespace ferry::interop {

// How many messages there were of each size, by powers of two.
class SizeCounts {
 public:
  void add(std::uint64_t bytes);
  // " 64:12 4K:3": 12 of 64 to 127 bytes, 3 of 4 to 8 KiB.
  std::string to_string() const;

 private:
  static constexpr std::size_t kMost = 40;
  std::array<std::atomic<std::uint64_t>, kMost> counts_{};
};

// What went over one link, for the report at the end.
struct LinkCounts {
  std::atomic<std::uint64_t> writes{0};        // of gRPC's
  std::atomic<std::uint64_t> sent_bytes{0};    // in them
  std::atomic<std::uint64_t> taken_bytes{0};   // received
  std::atomic<std::uint64_t> lent_bytes{0};    // of these, handed to gRPC where they lie
  std::atomic<std::uint64_t> copied_bytes{0};  // of these, copied: small, or too much was lent
  std::atomic<std::uint64_t> over_budget{0};   // messages that were copied because of that
  SizeCounts sent_sizes;                       // of gRPC's writes
  SizeCounts taken_sizes;                      // of messages received
  std::atomic<std::uint64_t> in_pieces{0};     // messages that were sent so, for want of memory
  std::atomic<std::uint64_t> piece_bytes{0};   // in them
};

// A mailbox and its channel, for as long as anybody uses either: the endpoint, and slices of
// messages that gRPC or the program still holds. The last of them leaves it to the LinkTable, which
// closes it.
//
// Thread-safe, but for lend().
class Link {
 public:
  // Both ends call it. Blocks.
  static Result<std::unique_ptr<Link>> open(mail::MailRoom& room, fabric::Device& device,
                                            fabric::Channel channel, const LinkThresholds& set,
                                            Deadline deadline);

  mail::Mailbox& mailbox() { return *mailbox_; }
  const mail::Mailbox& mailbox() const { return *mailbox_; }
  const fabric::Channel& channel() const { return channel_; }
  // Whether the peer's memory is mapped here: then what it wrote before it died is here.
  bool maps() const { return maps_; }
  // Whether connections of this process wait for receive memory, which all of them share.
  bool is_room_crowded() const { return room_.crowded(); }

  // Most bytes of one message: a quarter of the memory. What is lent is half of it, so that there
  // is room for a message, also with what its buffer is rounded up by, whatever the program holds.
  static std::uint64_t most_in_a_message();
  // Whether a message may be lent to gRPC where it lies; then take_back() is due. False: the
  // program holds so much that the peer, or this process, may run out of memory. Called by one
  // thread at a time.
  bool lend(std::uint64_t bytes);
  void take_back(std::uint64_t bytes);

  LinkCounts counts;
  // Who is at the other end, as gRPC calls it, and on which side this one is.
  std::string peer;
  std::atomic<bool> client{false};

  // Done when the mailbox is closed: until then it may look at what a failed send left behind.
  std::function<void()> afterwards;

  // For want of memory a message goes in small pieces, through the peer's slots. Logs the first.
  void note_pieces(std::uint64_t bytes, const Error& why);

  // What the user has set; the mailbox knows the rest.
  const LinkThresholds& thresholds() const { return set_; }
  // Whether a measurement of the path would change anything: nothing is known of it, and the user
  // leaves something open.
  bool lacks_tuning() const;
  // New values for what the user leaves open.
  void retune(const mail::FoundTuning& found);

  std::string report() const;
  PluginTraffic traffic() const;
  ~Link();

 private:
  explicit Link(mail::MailRoom& room) : room_(room) {}
  // Whether a message of so many bytes may be lent to slices, and memory is left for others.
  bool has_memory_to_lend(std::uint64_t bytes) const;
  // The thresholds of the link and where they come from, as a part of report().
  std::string report_thresholds() const;
  mail::MailRoom& room_;
  fabric::Channel channel_;
  std::unique_ptr<mail::Mailbox> mailbox_;  // refers to the channel
  bool maps_ = false;
  LinkThresholds set_;
  std::atomic<std::uint64_t> lent_{0};  // bytes that slices hold now
  std::atomic<std::uint32_t> lent_messages_{0};
  mutable Mutex pieces_lock_;
  std::string why_pieces_ FERRY_GUARDED_BY(pieces_lock_);
};

}  // namespace ferry::interop
