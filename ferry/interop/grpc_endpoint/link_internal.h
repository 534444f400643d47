#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/transfer/mailbox.h"

namespace ferry::interop {

// What went over one link, for the report at the end.
struct LinkCounts {
  std::atomic<std::uint64_t> writes{0};        // of gRPC's
  std::atomic<std::uint64_t> sent_bytes{0};    // in them
  std::atomic<std::uint64_t> taken_bytes{0};   // received
  std::atomic<std::uint64_t> lent_bytes{0};    // of these, handed to gRPC where they lie
  std::atomic<std::uint64_t> copied_bytes{0};  // of these, copied: small, or too much was lent
  std::atomic<std::uint64_t> over_budget{0};   // messages that were copied because of that
};

// A mailbox and its channel, as long as anybody uses either: the endpoint, and slices of messages
// that gRPC or the program still holds. Thread-safe.
class Link {
 public:
  // Both ends call it. Blocks.
  static Result<std::shared_ptr<Link>> open(transfer::MailRoom& room, fabric::Device& device,
                                            fabric::Channel channel, Deadline deadline);

  transfer::Mailbox& mailbox() { return *mailbox_; }
  const transfer::Mailbox& mailbox() const { return *mailbox_; }
  const fabric::Channel& channel() const { return channel_; }
  // Whether the peer's memory is this process's too: what it wrote before it died is here.
  bool maps() const { return maps_; }

  // Large messages that may be under way; those that are used in place count until they are let go
  // of.
  static constexpr std::uint32_t kRendezvous = 64;

  LinkCounts counts;
  std::atomic<std::uint64_t> lent{0};  // bytes that slices hold now
  std::atomic<std::uint32_t> lent_messages{0};
  // Who is at the other end, as gRPC calls it, and on which side this one is.
  std::string peer;
  std::atomic<bool> client{false};

  // Done when the mailbox is closed: until then it may look at what a failed send left behind.
  std::function<void()> afterwards;

  std::string report() const;
  PluginTraffic traffic() const;
  ~Link();

 private:
  Link() = default;
  fabric::Channel channel_;
  std::unique_ptr<transfer::Mailbox> mailbox_;  // refers to the channel
  bool maps_ = false;
};

}  // namespace ferry::interop
