// Data path.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/waiting.h"
#include "ferry/mail/mail_inbound_internal.h"
#include "ferry/mail/mail_opening_internal.h"
#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_outbound_internal.h"
#include "ferry/mail/mail_places_internal.h"
#include "ferry/mail/mail_room_internal.h"

namespace ferry::mail {

// One mailbox: its two directions, the lock that both run under, and the waits. Any thread.
//
// The lock is held for a few instructions or the copy of a small message, never while waiting. What
// waiters look at without it is in the signals. What takes longer is noted under the lock and done
// without it, by the Guard of the thread that noted it or of any other that comes by. Between calls
// either the mailbox works or `broken_` says why not; then every send has ended or is ending, and
// no message comes but those that had arrived. docs/design/messages.md tells of the parts.
class MailCore {
 public:
  struct Parts {
    MailboxOptions options;
    Tuning tuning;
    TuningSource source = TuningSource::kDefault;
    MailHello peer;
    landing::Landing landing;
    landing::Launch launch;
    fabric::Region staging;  // where the path does not map the peer
    fabric::Region words;
    std::vector<landing::RemoteWord> peer_words;
    landing::RemoteWord closed_word;
    // What this end uses of the peer's slots, and of how many at once where it needs memory of its
    // own for them: no more than it has itself, whatever the peer says that it has.
    std::uint64_t batch_body() const;
    std::uint32_t stages() const { return std::min(options.slots, peer.slots); }
  };
  MailCore(RoomCore& room, fabric::Device& device, fabric::Channel& channel, Parts parts);
  ~MailCore();
  static Result<std::unique_ptr<MailCore>> open(RoomCore& room, fabric::Device& device,
                                                fabric::Channel& channel,
                                                const MailboxOptions& options,
                                                const MailStart& start, Deadline deadline);

  Result<MailSent> send(MailParts parts, Deadline deadline);
  // Waits until it is accepted. Null: it has gone out.
  Result<MailOutgoing*> send_when_room(MailParts parts, Deadline deadline, fabric::WaitMode mode);
  tl::unexpected<Error> no_room(Code code, std::uint64_t lacks) const;
  bool poll_send(MailOutgoing* out);
  void wait_send(MailOutgoing* out, fabric::WaitMode mode);
  void drop_send(MailOutgoing* out);
  Status drain(Deadline deadline, fabric::WaitMode mode);
  // kResourceExhausted at once if the deadline is 0.
  Result<landing::BufferPool::Buffer> allocate_when_room(std::uint64_t bytes, Deadline deadline,
                                                         fabric::WaitMode mode);
  void drop_buffer(std::size_t index);

  // Receiving. Null: nothing is there.
  Result<MailParcel*> take_next(bool begun);
  Result<MailParcel*> wait_next(bool begun, Deadline deadline, fabric::WaitMode mode);
  Status wait_landed(MailParcel& parcel, std::uint64_t span, Deadline deadline,
                     fabric::WaitMode mode);
  Status let_go(MailParcel* parcel);
  bool ready() const { return in_.ready.load(std::memory_order_acquire); }
  std::uint64_t open_sends() const { return out_.open_sends.load(std::memory_order_acquire); }

  // Does what can be done without waiting.
  void progress();
  // Whether progress() may do something: the one question that waiters ask, of words that the peer
  // writes and of signals. Any thread, no lock.
  bool may_be_ready() const {
    if (in_.read_ended()) return true;
    if (is_broken_.load(std::memory_order_relaxed)) return false;
    return in_.batch_came() || out_.may_be_ready(words_) || words_.peer_closed() ||
           in_.may_go_on() || !path_.channel.alive();
  }
  // When the next send ends unless it is over by then, or earlier.
  Deadline first_expiry() const {
    return Deadline::at_ns(out_.first_expiry.load(std::memory_order_relaxed));
  }
  // Whoever waits in the room sees to deadlines: nobody need ask for the end of a send.
  void expire_due();
  MailStats stats();
  const LiveTuning& tuning() const { return path_.tuning; }
  void retune(const Tuning& tuning, TuningSource source) {
    path_.tuning.replace(with_options(tuning, path_.options, path_.device), source);
  }

  std::atomic<std::uint32_t> pins{0};  // of RoomCore::progress_others()

 private:
  class Guard;
  // mail_send.cc
  Result<MailSent> send_queued(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_REQUIRES(lock_);
  Result<MailSent> send_large(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_EXCLUDES(lock_);
  Result<MailSent> begin_large(MailParts parts, std::uint64_t bytes, Deadline deadline,
                               std::vector<MailPlace>& places) FERRY_EXCLUDES(lock_);
  // Makes the memory of a large message readable for the peer.
  Result<MailCopies> prepare(MailOutgoing& out, std::vector<MailPlace>& places)
      FERRY_EXCLUDES(lock_);
  // Nothing: there is no room.
  Result<std::optional<landing::BufferPool::Buffer>> allocate(std::uint64_t bytes)
      FERRY_EXCLUDES(lock_);
  Result<landing::BufferPool::Buffer> take_buffer(std::uint64_t bytes, MailOutgoing* out)
      FERRY_EXCLUDES(lock_);

  // mail_core.cc
  void progress_locked() FERRY_REQUIRES(lock_);
  void continue_reads() FERRY_REQUIRES(lock_);
  // A failure of a part is one of the mailbox.
  void check(const Status& status) FERRY_REQUIRES(lock_) {
    if (!status) break_with(status.error());
  }
  void break_with(const Error& error) FERRY_REQUIRES(lock_);
  void hear_closing() FERRY_REQUIRES(lock_);
  void do_rest() FERRY_EXCLUDES(lock_);
  void map_next() FERRY_EXCLUDES(lock_);
  void post_planned() FERRY_EXCLUDES(lock_);
  void post_read(MailChunk* chunk) FERRY_EXCLUDES(lock_);
  void end_rest() FERRY_EXCLUDES(lock_);
  // Waits until done() or something can be done in the room, and does what others need. False: the
  // deadline came first.
  template <class Done>
  bool await(Done done, Deadline deadline, fabric::WaitMode mode);

  RoomCore& room_;
  MailPath path_;
  const MailWords words_;
  MailOutSignals out_;
  MailInSignals in_;
  landing::BufferPool pool_;  // what the peer may read
  SpinLock lock_;
  MailOutbound outbound_ FERRY_GUARDED_BY(lock_);
  MailInbound inbound_ FERRY_GUARDED_BY(lock_);
  std::optional<Error> broken_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> is_broken_{false};
};

template <class Done>
bool MailCore::await(Done done, Deadline deadline, fabric::WaitMode mode) {
  if (path_.maps && mode != fabric::WaitMode::kSleep) {
    for (int look = 0; look < waiting::kMailLooks; ++look) {
      if (done() || may_be_ready()) return true;
      cpu_relax();
    }
  }
  if (!room_.wait(done, deadline, mode, path_.tuning.spin())) return false;
  room_.progress_others(this);
  return done() || !deadline.expired();
}

// Holds the lock; then, without it, does what takes longer and tells those who wait.
class FERRY_SCOPED_CAPABILITY MailCore::Guard {
 public:
  explicit Guard(MailCore& core) FERRY_ACQUIRE(core.lock_) : core_(core) { core_.lock_.lock(); }
  ~Guard() FERRY_RELEASE();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  MailCore& core_;
};

}  // namespace ferry::mail
