#pragma once

#include <array>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/transfer/mailbox.h"

// What the two ends of a mailbox tell each other of the path before their hellos
// (docs/wire/messages.md), and what comes of it.

namespace ferry::transfer {

// What a mailbox is opened with.
struct MailStart {
  Tuning tuning;
  // The peer's hello, if it has come already: a peer that does not tune sends nothing before it.
  std::vector<std::byte> early_hello;
};

struct TuningOffer {
  enum class State : std::uint32_t {
    kNothing = 0,  // this end has no values
    kWould = 1,    // the same, and it would measure now
    kHas = 2,
  };
  State state = State::kNothing;
  Tuning tuning;  // of kHas

  static constexpr std::size_t kWireBytes = 48;
  using Wire = std::array<std::byte, kWireBytes>;
  Wire to_wire() const;
  // kInvalidArgument or kOutOfRange for what no end would say.
  static Result<TuningOffer> from_wire(std::span<const std::byte> wire);
};

// kInvalidArgument for options that cannot be.
Status check_mail_options(const MailboxOptions& options);

// Finds out what the options leave open: from the cache, from the peer, by a calibration with it,
// or from the defaults. Both ends call it, unless they are off.
Result<MailStart> settle_tuning(fabric::Device& device, fabric::Channel& channel,
                                const MailboxOptions& options, const MailRoomOptions& room,
                                Deadline deadline);

// The peer's hello, whether it has come already or not. Skips its offer, for ends that are off.
Result<std::vector<std::byte>> receive_hello(fabric::Channel& channel, const MailStart& start,
                                             Deadline deadline);

}  // namespace ferry::transfer
