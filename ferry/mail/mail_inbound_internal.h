// Data path.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ferry/mail/mail_arrivals_internal.h"
#include "ferry/mail/mail_reads_internal.h"
#include "ferry/mail/mail_stats.h"

namespace ferry::mail {

// Messages that arrive at a mailbox: takes batches apart, and brings each message to the inbox and,
// if it is large, to memory. Runs under the mailbox's lock, on whichever thread has it; nothing
// here waits. A Status that fails breaks the mailbox: the caller then calls fail_all().
//
// Between calls: the inbox has the messages in the order in which they were sent, and the signals
// say of the first one whether it is there.
class MailInbound {
 public:
  MailInbound(const MailPath& path, const MailWords& words, MailInSignals& signals,
              landing::Landing landing)
      : path_(path),
        signals_(signals),
        inbox_(path.room.receive_memory),
        arrivals_(words, signals, std::move(landing)),
        answers_(path, words),
        reads_(path, words, signals, inbox_, answers_, maps_) {}

  // Takes all batches that have arrived. What comes behind a batch that cannot be is not taken.
  Status take_batches();
  // Goes on with messages that are being read.
  Status read() { return reads_.progress(); }
  bool may_read() const {
    return reads_.has_any() || signals_.waiter.may_ask.load(std::memory_order_relaxed);
  }

  // The next message, if it is whole or, for who takes one that has begun, being read.
  MailParcel* take_next(bool begun);
  // The program is done with a message that is read no more.
  Status release(MailParcel* parcel);
  // Says to waiters what of the next message is there. `broken`: no more will come.
  void update_front(bool broken);
  // Whether nothing more comes out of the inbox of a broken mailbox: the next message is not being
  // mapped.
  bool is_over() const {
    const auto* front = inbox_.front();
    return front == nullptr || front->state != State::kMapping;
  }

  // What is done without the lock: mapping the memory of a message, and posting reads.
  bool has_rest() const { return maps_.has_waiting() || reads_.has_planned(); }
  void note_rest() { signals_.more.store(has_rest(), std::memory_order_release); }
  MailMapping begin_mapping() { return maps_.begin(); }
  Status finish_mapping(const MailMapping& mapping, const std::optional<Error>& broken);
  MailReads& reads() { return reads_; }

  // The mailbox is broken: what has arrived whole, or is whole once its memory is mapped, can still
  // be received.
  void fail_all(const Error& error) { reads_.fail_all(error); }
  // The peer has closed its mailbox: what it has only announced does not come.
  void drop_announced(const Error& error) { reads_.drop_all(error); }
  // Gives back the memory of all messages. Nothing is under way any more.
  void give_back_all() { inbox_.give_back_all(); }

  void add_to(MailStats& stats) const;
  // Whether something changed that threads may wait for.
  bool take_changed() { return inbox_.take_changed(); }

 private:
  using State = MailParcel::State;
  // Takes batches until none has arrived, or one cannot be.
  Status drain_arrivals();
  // Takes the messages of the batch that has arrived out of it. The slot goes back to the sender at
  // once if it has nothing but announcements.
  Status unpack_next_batch();
  // Brings one record of a batch to the inbox: a message, which holds the slot then, or an
  // announcement of one.
  Status take_record(const MailHead& head, std::span<const std::byte> body, const MailSlot& slot);
  // Copies the announcement out of the peer's reach and checks it. A message that is over the limit
  // of this mailbox is refused, and never comes to the inbox.
  Status take_announcement(const MailHead& head, std::span<const std::byte> body);
  // Uses the announced message in place, or has it mapped or read.
  Status begin_announced(MailParcel& parcel);
  // Answers the sender of an announcement that its message is not taken, and why, and forgets it.
  Status refuse(MailParcel* parcel, Code code);

  const MailPath& path_;
  MailInSignals& signals_;
  MailInbox inbox_;
  MailArrivals arrivals_;
  MailAnswers answers_;
  MailMaps maps_;
  MailReads reads_;
  std::vector<std::byte> scratch_;  // an announcement, out of the peer's reach
  bool intact_ = true;              // no batch was one that cannot be
  std::uint64_t received_ = 0;
  std::uint64_t in_place_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace ferry::mail
