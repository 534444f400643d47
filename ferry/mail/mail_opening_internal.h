#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "ferry/fabric/channel.h"
#include "ferry/mail/tuning.h"

// What the two ends of a mailbox tell each other before anything else: an offer of a tuning, unless
// that is off, and a hello (docs/wire/messages.md).

namespace ferry::mail {

// What a mailbox is opened with.
struct MailStart {
  Tuning tuning;
  TuningSource source = TuningSource::kDefault;
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

using MailOpening = std::vector<std::byte>;
// What the peer says next: its offer or its hello.
Result<MailOpening> receive_opening(fabric::Channel& channel, Deadline deadline);
bool is_offer(std::span<const std::byte> opening);

// The peer's hello, whether it has come already or not. Skips its offer, for ends that are off.
Result<MailOpening> receive_hello(fabric::Channel& channel, const MailStart& start,
                                  Deadline deadline);

}  // namespace ferry::mail
