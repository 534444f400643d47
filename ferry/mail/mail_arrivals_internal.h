// Data path.
#pragma once

#include <utility>
#include <vector>

#include "ferry/landing/landing.h"
#include "ferry/mail/mail_parcel_internal.h"
#include "ferry/mail/mail_signals_internal.h"

namespace ferry::mail {

// The slots that the peer writes batches into, and who holds which: the messages in a slot that
// were not let go of. Runs under the mailbox's lock. A failure breaks the mailbox.
class MailArrivals {
 public:
  MailArrivals(const MailWords& words, MailInSignals& signals, landing::Landing landing)
      : words_(words),
        signals_(signals),
        landing_(std::move(landing)),
        holds_(landing_.layout().slots) {
    watch();
  }

  struct Batch {
    MailSlot slot;
    std::uint32_t records = 0;
    std::span<const std::byte> bytes;
  };
  Result<bool> arrived() const { return landing_.arrived(); }
  // The batch that has arrived. The caller holds its slot once, and releases it.
  Result<Batch> take() {
    std::span<const std::byte> body = landing_.body();
    const auto batch = FERRY_TRY(MailBatch::load(body));
    const MailSlot slot{landing_.slot(), FERRY_TRY(landing_.take())};
    holds_[slot.index] = 1;
    return Batch{slot, batch.records, body.subspan(MailBatch::kBytes, batch.bytes)};
  }
  void hold(const MailSlot& slot) { ++holds_[slot.index]; }
  // The slot is the sender's again when nobody holds it. The sender hears of it with what goes that
  // way next, unless it may be short of slots.
  Status release(const MailSlot& slot) {
    if (--holds_[slot.index] != 0 || words_.peer_closed()) return {};
    const bool plenty = landing_.expected() - slot.sequence < landing_.layout().slots / 4;
    return landing_.acknowledge(slot.index, slot.sequence,
                                plenty ? fabric::Pace::kLate : fabric::Pace::kLateEnd);
  }
  // Tells the signals where the next batch arrives.
  void watch() {
    signals_.flag_word.store(landing_.flag_word(), std::memory_order_relaxed);
    signals_.flag_idle.store(landing_.before(), std::memory_order_relaxed);
  }

 private:
  const MailWords& words_;
  MailInSignals& signals_;
  landing::Landing landing_;
  std::vector<std::uint32_t> holds_;  // by slot
};

}  // namespace ferry::mail
