// Data path.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ferry/mail/mail_batches_internal.h"
#include "ferry/mail/mail_buffers_internal.h"
#include "ferry/mail/mail_list_internal.h"
#include "ferry/mail/mail_outgoing_internal.h"
#include "ferry/mail/mail_stats.h"

namespace ferry::mail {

// Messages that leave a mailbox: the queue for slots, announcements and the peer's answers to them,
// and the ends of sends. Runs under the mailbox's lock, on whichever thread has it; nothing here
// waits. A Status that fails breaks the mailbox: the caller then calls end_all().
//
// Between calls: a send that has not ended is in the queue, in `announced_`, in `ending_`, or being
// prepared by the thread that sends it. It keeps its buffers until it has ended and the peer does
// not look at its memory any more.
class MailOutbound {
 public:
  MailOutbound(const MailPath& path, const MailWords& words, MailOutSignals& signals,
               landing::BufferPool& pool, MailBatchWriter writer)
      : path_(path),
        words_(words),
        signals_(signals),
        writer_(std::move(writer)),
        buffers_(path.room.buffers, pool, signals),
        announced_(path.options.rendezvous) {}

  // Sends an eager message at once, if nothing is before it and a slot is free. False: it has to
  // wait.
  Result<bool> send_now(MailParts parts, std::uint64_t bytes) {
    if (!queue_.empty() || !FERRY_TRY(writer_.slot_free())) return false;
    auto batch = writer_.open();
    batch.add(store_eager(batch.end(), parts));
    stats_.eager_bytes += bytes;
    FERRY_TRY(close(batch));
    return true;
  }
  // What is kept of a message that waits, beside copies of its bytes.
  static std::uint64_t note_bytes(MailParts parts);
  bool has_room(std::uint64_t cost) const {
    return mail::has_room(signals_.kept_bytes, cost, path_.options);
  }
  // Makes a send that is being prepared. It keeps the buffers that its parts lie in.
  MailOutgoing* begin(MailParts parts, std::uint64_t bytes, Deadline deadline, std::uint64_t cost,
                      bool large);
  // The send is prepared: puts it behind those that wait for a slot, and fills what slots are free.
  Status enqueue(MailOutgoing* out);
  // Fills free slots from the queue: whatever waits and fits goes into one batch.
  Status pump();
  bool is_queueing() const { return !queue_.empty(); }

  // Takes the peer's answers to announcements, and looks at writes that failed.
  Status progress();

  // Ends a send, whose memory the peer does not touch any more, or holds in place. Called again for
  // a send that has ended, it gives back what the send still keeps.
  void end(MailOutgoing& out, std::optional<Error> error);
  // The deadline of the send has come: ends it, and takes it out of the queue, or tells a peer that
  // it was announced to that it is given up.
  void expire(MailOutgoing& out);
  // Expires all sends whose deadlines have come, and sets the time of the next.
  void expire_due();
  // The mailbox is broken: ends all sends.
  void end_all(const Error& error);
  // The handle does not need the send any more.
  void drop(MailOutgoing& out) {
    out.held = false;
    recycle_if_over(out);
  }

  // Sends whose regions are to be let go of, without the lock, before mark_ended().
  bool has_ending() const { return !ending_.empty(); }
  std::vector<MailOutgoing*> take_ending() { return std::exchange(ending_, {}); }
  // Says to whoever waits that the send has ended.
  void mark_ended(MailOutgoing& out);

  MailBuffers& buffers() { return buffers_; }
  void drop_buffer(std::size_t index) { changed_ = buffers_.unshare(index) || changed_; }
  MailBatchWriter& writer() { return writer_; }
  MailStats& stats() { return stats_; }
  // Whether something changed that threads may wait for.
  bool take_changed() { return std::exchange(changed_, false); }

 private:
  using Phase = MailOutgoing::Phase;
  using Wire = MailOutgoing::Wire;
  // Counts what the batch has, and sends it.
  Status close(const MailOpenBatch& batch) {
    ++stats_.batches;
    stats_.sent += batch.head.records;
    return writer_.close(batch);
  }
  // Takes the first send of the queue into the batch: its bytes, which ends it, or its
  // announcement. False: it does not fit, or there is no index for it.
  bool add_to_batch(MailOpenBatch& batch, MailOutgoing& out);
  // A rendezvous index that no announcement uses.
  std::optional<std::uint32_t> free_index() const;
  // The peer has answered the announcement of this send (null: there is none, which is a breach).
  Status take_answer(MailOutgoing* waiting, std::uint64_t value);
  // Frees the index of an announcement: the peer has answered it for good, or the mailbox is
  // broken.
  void take_off_wire(MailOutgoing& out, Wire wire);
  // Gives back what the send keeps, when it has ended and the peer is done with it; and the object,
  // when the handle is done with that.
  void recycle_if_over(MailOutgoing& out);

  const MailPath& path_;
  const MailWords& words_;
  MailOutSignals& signals_;
  MailBatchWriter writer_;
  MailBuffers buffers_;
  MailList<MailOutgoing> queue_;
  std::vector<MailOutgoing*> announced_;  // by rendezvous index
  std::uint64_t announcements_ = 0;
  std::vector<MailOutgoing*> ending_;
  std::vector<std::unique_ptr<MailOutgoing>> all_;
  std::vector<MailOutgoing*> spare_;
  MailStats stats_;
  bool changed_ = false;
};

}  // namespace ferry::mail
