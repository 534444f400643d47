#pragma once

#include <memory>
#include <vector>

#include "ferry/mail/mail_answers_internal.h"
#include "ferry/mail/mail_inbox_internal.h"
#include "ferry/mail/mail_maps_internal.h"
#include "ferry/mail/mail_reading_internal.h"
#include "ferry/mail/mail_signals_internal.h"

namespace ferry::mail {

// Large messages that are read in chunks into memory of the room. Runs under the mailbox's lock: a
// read is planned here and posted without it, by whoever took it from next_planned(). A Status that
// fails breaks the mailbox.
//
// Between calls: every announced message that is neither whole nor over is in `reading_`, in the
// order of the announcements, also while its memory is being mapped; it stays there, whatever has
// become of it, until its last read has ended.
class MailReads {
 public:
  MailReads(const MailPath& path, const MailWords& words, MailInSignals& signals, MailInbox& inbox,
            MailAnswers& answers, MailMaps& maps)
      : path_(path),
        words_(words),
        signals_(signals),
        inbox_(inbox),
        answers_(answers),
        maps_(maps) {}

  // The announced message is to be read, in turn with those before it.
  void add(MailParcel* parcel);
  // The message is used in place after all: it is not read.
  void remove(MailParcel& parcel);
  bool has_any() const { return !reading_.empty(); }

  // Takes what has landed, and plans what can be read next, of each message.
  Status progress();
  // The message does not come; the mailbox is broken, or will be.
  void fail_parcel(MailParcel& parcel, const Error& error) { fail_reading(*parcel.reading, error); }
  // Fails all messages but those that are being mapped, which may still turn out to be whole.
  void fail_all(const Error& error);
  // The messages do not come: unlike failed ones they leave the inbox, so that those behind them
  // can be received.
  void drop_all(const Error& error);

  std::size_t planned() const { return planned_.count(); }
  bool has_planned() const { return !planned_.empty(); }
  // A read for the caller to post, without the lock; null: there is none. note_posted() follows.
  MailChunk* next_planned();
  static void note_posted(MailChunk& chunk, fabric::Transfer transfer);
  std::uint64_t posted() const { return posted_; }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t chunks() const { return chunks_; }

 private:
  using State = MailParcel::State;
  // Does what can be done for one message. False: nothing more is to be done for it. `in_line`:
  // some message waits for memory, and so none behind it asks for any.
  Result<bool> step(MailReading& reading, bool& in_line);
  // Gets memory for the message, in turn with all mailboxes, and begins to read it. A message for
  // which there can be no memory is refused; `in_line` is set if it has to wait.
  Status admit(MailReading& reading, bool& in_line);
  // The message has memory: lays out its parts there.
  void begin(MailReading& reading, const ReceiveMemory::Buffer& buffer) const;
  // Plans reads until all pieces of the message are read, or as many are in flight as may be.
  void plan_chunks(MailReading& reading);
  // Plans one read; `end`: up to where the message has landed when the read has ended.
  void plan_read(MailReading& reading, std::span<std::byte> to, const fabric::RemoteAt& from,
                 std::uint64_t end);
  // The message of the read has failed: it is not posted, or is given up.
  void unplan(MailChunk& chunk);
  // Takes reads that have ended, in the order in which they were asked for.
  void reap(MailReading& reading);
  // Fails the message, which keeps its place in the inbox, and cancels its reads.
  void fail_reading(MailReading& reading, const Error& error);
  // Fails the message unless it is over, and takes it out of the inbox.
  void drop_reading(MailReading& reading, const Error& error);
  // A read has failed. Perhaps the sender's deadline came, and it has taken its memory back: plans
  // a read of the word that says so.
  void ask_if_given_up(MailReading& reading);
  // That word has been read. OK if the sender has given the message up or has closed its mailbox;
  // if not, the failure of the read breaks the mailbox.
  Status hear_answer(MailReading& reading);
  // What to say of a read that the sender's end has refused: it has announced what it does not
  // grant.
  Error refusal(const Error& cause) const;
  // All reads of the message have landed: it is whole, and its sender is told.
  Status finish(MailParcel& parcel);
  // The message needs the reading no more.
  void recycle(MailReading* reading);

  const MailPath& path_;
  const MailWords& words_;
  MailInSignals& signals_;
  MailInbox& inbox_;
  MailAnswers& answers_;
  MailMaps& maps_;
  std::vector<MailReading*> reading_;
  std::vector<std::unique_ptr<MailReading>> all_;
  std::vector<MailReading*> spare_;
  MailList<MailChunk> planned_;  // reads that nobody has posted
  std::uint64_t posted_ = 0;     // reads
  std::uint64_t chunks_ = 0;     // of messages that were planned
  std::uint64_t refused_ = 0;
};

}  // namespace ferry::mail
