// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "ferry/mail/mail_path_internal.h"
#include "ferry/mail/mail_words_internal.h"
#include "ferry/mail/receive_memory_internal.h"

namespace ferry::mail {

// Whether `more` bytes may be taken of those that a mailbox may keep for sends: as many as the
// option says, or more for one alone.
inline bool has_room(const std::atomic<std::uint64_t>& taken, std::uint64_t more,
                     const MailboxOptions& options) {
  const auto now = taken.load(std::memory_order_relaxed);
  return now == 0 || (now <= options.send_bytes && more <= options.send_bytes - now);
}

// Of messages that leave: what is looked at without the lock.
struct MailOutSignals {
  static constexpr auto kNoExpiry = std::numeric_limits<std::int64_t>::max();
  explicit MailOutSignals(std::uint32_t rendezvous)
      : indices(rendezvous), seen(std::make_unique<std::atomic<std::uint64_t>[]>(rendezvous)) {}

  std::atomic<bool> blocked{false};  // the queue waits for a slot: the next three say which
  std::atomic<const std::uint64_t*> slot_word{nullptr};
  std::atomic<std::uint64_t> slot_busy{0};                       // its value until it is free
  std::atomic<const std::atomic<bool>*> stage_writing{nullptr};  // null: there is no stage
  std::atomic<std::uint32_t> on_wire{0};                         // announcements
  const std::uint32_t indices;                                   // of rendezvous
  const std::unique_ptr<std::atomic<std::uint64_t>[]> seen;      // their answers, by index
  std::atomic<std::uint32_t> bad_writes{0};                      // nobody has looked at them
  std::atomic<std::uint64_t> writes_ended{0};

  std::atomic<std::uint64_t> open_sends{0};
  std::atomic<std::int64_t> first_expiry{kNoExpiry};  // of the sends that have not ended, or before
  std::atomic<std::uint64_t> kept_bytes{0};           // of what sends keep until they are over
  std::atomic<std::uint64_t> given_bytes{0};          // by allocate()

  bool may_be_ready(const MailWords& words) const {
    return (blocked.load(std::memory_order_seq_cst) && slot_came()) || answer_came(words) ||
           bad_writes.load(std::memory_order_relaxed) != 0;
  }

 private:
  bool slot_came() const {
    const auto* word = slot_word.load(std::memory_order_relaxed);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == slot_busy.load(std::memory_order_relaxed))
      return false;
    const auto* writing = stage_writing.load(std::memory_order_relaxed);
    return writing == nullptr || !writing->load(std::memory_order_acquire);
  }
  bool answer_came(const MailWords& words) const {
    if (on_wire.load(std::memory_order_relaxed) == 0) return false;
    for (std::uint32_t i = 0; i < indices; ++i)
      if (words.answer(i) != seen[i].load(std::memory_order_relaxed)) return true;
    return false;
  }
};

// The same of messages that arrive.
struct MailInSignals {
  std::atomic<const std::uint64_t*> flag_word{nullptr};  // of the slot of the next batch
  std::atomic<std::uint64_t> flag_idle{0};               // its value until the batch is there
  std::atomic<std::uint64_t> reads_ended{0};
  std::atomic<std::uint64_t> reads_seen{0};  // of these: the mailbox has looked at them
  MemoryWaiter waiter;                       // in line for memory of the room
  std::atomic<bool> more{false};             // something is noted that nobody has begun to do

  std::atomic<bool> ready{false};  // the next message is whole, or none will come
  std::atomic<bool> begun{false};  // it has memory, or none will come

  bool batch_came() const {
    const auto idle = flag_idle.load(std::memory_order_relaxed);
    return __atomic_load_n(flag_word.load(std::memory_order_relaxed), __ATOMIC_ACQUIRE) != idle;
  }
  bool read_ended() const {
    return reads_ended.load(std::memory_order_acquire) !=
           reads_seen.load(std::memory_order_relaxed);
  }
  bool may_go_on() const {
    return waiter.may_ask.load(std::memory_order_relaxed) || more.load(std::memory_order_relaxed);
  }
};

// All that threads look at without the lock of a mailbox: words to watch, what completion callbacks
// count, and what waiters wait for. The parts of the mailbox write their half of it under the lock,
// but for the counts, which callbacks write. Every question here is lock-free.
class MailSignals {
 public:
  MailSignals(const MailPath& path, const MailWords& words)
      : out(path.options.rendezvous), path_(path), words_(words) {}

  MailOutSignals out;
  MailInSignals in;
  std::atomic<bool> broken{false};  // the mailbox is: nothing can be sent any more

  // Whether progress() of the mailbox may do something: the one question that waiters ask, of words
  // that the peer writes and of signals.
  bool may_be_ready() const {
    if (in.read_ended()) return true;
    if (broken.load(std::memory_order_relaxed)) return false;
    return in.batch_came() || out.may_be_ready(words_) || words_.peer_closed() || in.may_go_on() ||
           !path_.channel.alive();
  }
  // Of the next message: it is whole; it has memory. Or none will come.
  bool ready() const { return in.ready.load(std::memory_order_acquire); }
  bool begun() const { return in.begun.load(std::memory_order_acquire); }

  std::uint64_t open_sends() const { return out.open_sends.load(std::memory_order_acquire); }
  // When the next send ends unless it is over by then, or earlier.
  Deadline first_expiry() const {
    return Deadline::at_ns(out.first_expiry.load(std::memory_order_relaxed));
  }
  // Whether it is worth while to try again what lacked so many bytes: a send, an allocation.
  bool may_accept(std::uint64_t lacks) const { return may_take(out.kept_bytes, lacks); }
  bool may_allocate(std::uint64_t bytes) const { return may_take(out.given_bytes, bytes); }

 private:
  bool may_take(const std::atomic<std::uint64_t>& taken, std::uint64_t more) const {
    return has_room(taken, more, path_.options) || broken.load(std::memory_order_relaxed);
  }

  const MailPath& path_;
  const MailWords& words_;
};

}  // namespace ferry::mail
