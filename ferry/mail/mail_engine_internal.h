// Data path.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/mail/mail_inbound_internal.h"
#include "ferry/mail/mail_options_internal.h"
#include "ferry/mail/mail_outbound_internal.h"
#include "ferry/mail/mail_places_internal.h"
#include "ferry/mail/mail_setup_internal.h"

namespace ferry::mail {

// The two directions of a mailbox, and the lock that both run under. Any thread. Nothing here waits
// for a message, a slot or an answer: what cannot be done at once says so, and MailCore waits. Only
// the destructor does, so that what was sent goes out and no operation is left.
//
// The lock is held for a few instructions or the copy of a small message. What waiters look at
// without it is in the signals. What takes longer is noted under the lock and done without it, by
// the Guard of the thread that noted it or of any other that comes by. Between calls either the
// mailbox works or `broken_` says why not; then every send has ended or is ending, and no message
// comes but those that had arrived. docs/design/messages.md tells of the parts.
class MailEngine {
 public:
  MailEngine(RoomResources& room, fabric::Device& device, fabric::Channel& channel,
             MailSetup setup);
  ~MailEngine();

  const MailPath& path() const { return path_; }
  const MailSignals& signals() const { return signals_; }

  // Sends the message at once, queues it or announces it. If there is no room for it, nothing is
  // sent, and what it returns says how much room it lacks.
  Result<MailSent> send(MailParts parts, Deadline deadline);
  tl::unexpected<Error> no_room(Code code, std::uint64_t lacks) const;
  bool poll_send(MailOutgoing* out);
  void drop_send(MailOutgoing* out);
  // Nothing: there is no room.
  Result<std::optional<landing::BufferPool::Buffer>> allocate(std::uint64_t bytes);
  tl::unexpected<Error> no_buffer(Code code, std::uint64_t bytes) const;
  void drop_buffer(std::size_t index);

  // Receiving. Null: nothing is there.
  Result<MailParcel*> take_next(bool begun);
  Status let_go(MailParcel* parcel);
  // Why the rest of a message does not come.
  tl::unexpected<Error> failure_of(const MailParcel& parcel);

  // Does what can be done without waiting.
  void progress();
  // Whoever waits in the room sees to deadlines: nobody need ask for the end of a send.
  void expire_due();
  MailStats stats();
  void retune(const Tuning& tuning, TuningSource source) {
    path_.tuning.replace(with_options(tuning, path_.options, path_.device), source);
  }

  std::atomic<std::uint32_t> pins{0};  // of RoomCore::progress_others()

 private:
  class Guard;
  // mail_send.cc

  // Queues a message that goes through a slot.
  Result<MailSent> send_queued(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_REQUIRES(lock_);
  // Announces a message. What it copies and registers for that is done without the lock.
  Result<MailSent> send_large(MailParts parts, std::uint64_t bytes, Deadline deadline)
      FERRY_EXCLUDES(lock_);
  // The part of it under the lock before: notes the send, and where the bytes of its parts are.
  Result<MailSent> begin_large(MailParts parts, std::uint64_t bytes, Deadline deadline,
                               std::vector<MailPlace>& places) FERRY_EXCLUDES(lock_);
  // Makes the memory of a large message readable for the peer. After a failure a part of it may be
  // copied or registered: MailOutbound::end() gives that back.
  Result<MailCopies> prepare(MailOutgoing& out, std::vector<MailPlace>& places)
      FERRY_EXCLUDES(lock_);
  // A buffer that the peer may read, which `out` keeps, or the program if that is null. Fails if
  // the mailbox has broken meanwhile.
  Result<landing::BufferPool::Buffer> take_buffer(std::uint64_t bytes, MailOutgoing* out)
      FERRY_EXCLUDES(lock_);

  // mail_engine.cc

  // Does what can be done in both directions; what takes longer is noted for the Guard.
  void progress_locked() FERRY_REQUIRES(lock_);
  // Goes on with messages that are being read. A failure breaks the mailbox.
  void continue_reads() FERRY_REQUIRES(lock_);
  // A failure of a part is one of the mailbox.
  void check(const Status& status) FERRY_REQUIRES(lock_) {
    if (!status) break_with(status.error());
  }
  // Ends everything under way with this error, the first time. What has arrived whole, or is whole
  // once its memory is mapped, can still be received.
  void break_with(const Error& error) FERRY_REQUIRES(lock_);
  // The peer's mailbox is closed, and all that it has sent is here. What it has only announced does
  // not come.
  void hear_closing() FERRY_REQUIRES(lock_);
  // Does one round of what was noted: a long message must not keep a caller from its deadline.
  void do_rest() FERRY_EXCLUDES(lock_);
  // Maps the memory of one message, no further than its first region that is not there: what cannot
  // be mapped at once is read. Whoever waits for a message has a deadline of its own.
  void map_next() FERRY_EXCLUDES(lock_);
  // Posts as many reads as are planned now; any thread may post any.
  void post_planned() FERRY_EXCLUDES(lock_);
  // Posts one read. The chunk is the reading's until the read has ended.
  void post_read(MailChunk* chunk) FERRY_EXCLUDES(lock_);
  // Lets go of registered memory of sends that are ending, which waits for the peer, and then marks
  // these as ended.
  void end_rest() FERRY_EXCLUDES(lock_);

  MailPath path_;
  const MailWords words_;
  MailSignals signals_;
  landing::BufferPool pool_;  // what the peer may read
  SpinLock lock_;
  MailOutbound outbound_ FERRY_GUARDED_BY(lock_);
  MailInbound inbound_ FERRY_GUARDED_BY(lock_);
  std::optional<Error> broken_ FERRY_GUARDED_BY(lock_);
};

// Holds the lock; then, without it, does what takes longer and tells those who wait.
class FERRY_SCOPED_CAPABILITY MailEngine::Guard {
 public:
  explicit Guard(MailEngine& engine) FERRY_ACQUIRE(engine.lock_) : engine_(engine) {
    engine_.lock_.lock();
  }
  ~Guard() FERRY_RELEASE();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  MailEngine& engine_;
};

}  // namespace ferry::mail
