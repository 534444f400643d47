#include <algorithm>

#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_record_internal.h"

namespace ferry::mail {

namespace {

constexpr std::uint64_t kMostMailSlot = std::uint64_t{1} << 30;
constexpr std::uint64_t kUsualMailSlot = 16 << 10;
constexpr std::uint32_t kMostMailChunks = 1024;

}  // namespace

Status check_mail_options(const MailboxOptions& options) {
  auto slot = options.slot_bytes.value_or(kUsualMailSlot);
  if (slot < kLeastMailSlot || slot > kMostMailSlot)
    return fail(Code::kInvalidArgument, "slots of {} bytes; {} is the least, 1 GiB the most", slot,
                kLeastMailSlot);
  if (options.rendezvous == 0 || options.rendezvous > MailLimits::kRendezvous)
    return fail(Code::kInvalidArgument, "{} rendezvous; 1 to {} are possible", options.rendezvous,
                MailLimits::kRendezvous);
  if (options.send_bytes == 0)
    return fail(Code::kInvalidArgument, "a mailbox without memory for sends sends nothing");
  if (options.chunk_bytes == 0U)
    return fail(Code::kInvalidArgument, "large messages need chunks of at least one byte");
  if (auto chunks = options.chunks_in_flight.value_or(1); chunks == 0 || chunks > kMostMailChunks)
    return fail(Code::kInvalidArgument, "{} chunks in flight; 1 to {} are possible", chunks,
                kMostMailChunks);
  return {};
}

std::uint64_t mail_slot_bytes(const MailboxOptions& options, const Tuning& tuning) {
  constexpr std::uint64_t kHeads = 256;
  auto needed = std::min(tuning.eager_threshold, kMostMailSlot / 2) + kHeads;
  return options.slot_bytes.value_or(std::max(kUsualMailSlot, needed));
}

Tuning with_options(Tuning tuning, const MailboxOptions& options, const fabric::Device& device) {
  if (device.spin() != fabric::Options().spin) tuning.spin = device.spin();
  tuning.eager_threshold = options.eager_threshold.value_or(tuning.eager_threshold);
  tuning.copy_up_to = options.copy_up_to.value_or(tuning.copy_up_to);
  tuning.chunk_bytes = options.chunk_bytes.value_or(tuning.chunk_bytes);
  tuning.chunks_in_flight = options.chunks_in_flight.value_or(tuning.chunks_in_flight);
  tuning.spin = options.spin.value_or(tuning.spin);
  return tuning;
}

}  // namespace ferry::mail
