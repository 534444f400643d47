#pragma once

#include <array>
#include <atomic>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/mail_options.h"

// What the two ends of a mailbox tell each other of the path before their hellos
// (docs/wire/messages.md), and what comes of it.

namespace ferry::mail {

// What a mailbox is opened with.
struct MailStart {
  Tuning tuning;
  TuningSource source = TuningSource::kDefault;
  // The peer's hello, if it has come already: a peer that does not tune sends nothing before it.
  std::vector<std::byte> early_hello;
};

// The values of an open mailbox, which may be replaced while it is used. Every value stands for
// itself: who reads them meanwhile may find some of the old ones. Lock-free.
class LiveTuning {
 public:
  LiveTuning(const Tuning& tuning, TuningSource source) { replace(tuning, source); }
  void replace(const Tuning& tuning, TuningSource source) {
    eager_threshold_.store(tuning.eager_threshold, std::memory_order_relaxed);
    copy_up_to_.store(tuning.copy_up_to, std::memory_order_relaxed);
    chunk_bytes_.store(tuning.chunk_bytes, std::memory_order_relaxed);
    chunks_in_flight_.store(tuning.chunks_in_flight, std::memory_order_relaxed);
    spin_ns_.store(tuning.spin.count(), std::memory_order_relaxed);
    source_.store(source, std::memory_order_relaxed);
  }
  Tuning now() const {
    return {eager_threshold(), copy_up_to(), chunk_bytes(), chunks_in_flight(), spin()};
  }
  std::uint64_t eager_threshold() const { return eager_threshold_.load(std::memory_order_relaxed); }
  std::uint64_t copy_up_to() const { return copy_up_to_.load(std::memory_order_relaxed); }
  std::uint64_t chunk_bytes() const { return chunk_bytes_.load(std::memory_order_relaxed); }
  std::uint32_t chunks_in_flight() const {
    return chunks_in_flight_.load(std::memory_order_relaxed);
  }
  Nanos spin() const { return Nanos(spin_ns_.load(std::memory_order_relaxed)); }
  TuningSource source() const { return source_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> eager_threshold_;
  std::atomic<std::uint64_t> copy_up_to_;
  std::atomic<std::uint64_t> chunk_bytes_;
  std::atomic<std::uint32_t> chunks_in_flight_;
  std::atomic<std::int64_t> spin_ns_;
  std::atomic<TuningSource> source_;
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

// The user's word is above everything else.
Tuning with_options(Tuning tuning, const MailboxOptions& options, const fabric::Device& device);

// Finds out what the options leave open: from the cache, from the peer, by a calibration with it,
// or from the defaults. Both ends call it, unless they are off.
Result<MailStart> settle_tuning(fabric::Device& device, fabric::Channel& channel,
                                const MailboxOptions& options, const MailRoomOptions& room,
                                Deadline deadline);

// The peer's hello, whether it has come already or not. Skips its offer, for ends that are off.
Result<std::vector<std::byte>> receive_hello(fabric::Channel& channel, const MailStart& start,
                                             Deadline deadline);

}  // namespace ferry::mail
