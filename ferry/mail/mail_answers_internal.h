#pragma once

#include <vector>

#include "ferry/mail/mail_path_internal.h"
#include "ferry/mail/mail_words_internal.h"

namespace ferry::mail {

// The announcements of the peer's that are not answered for good: they are numbered, and each holds
// a rendezvous index of the peer's until then. Runs under the mailbox's lock.
class MailAnswers {
 public:
  MailAnswers(const MailPath& path, const MailWords& words)
      : path_(path), words_(words), in_use_(path.peer.rendezvous) {}

  // kDataLoss unless it is the next one, with an index that is free.
  Status accept(const Announcement& announcement);
  // Every state but kTaken frees the index.
  Status answer(const Announcement& announcement, MailWord::State state, Code code = Code::kOk) {
    if (state != MailWord::State::kTaken) in_use_[announcement.index] = false;
    return words_.store_answer(announcement.index, {announcement.number, state, code});
  }
  std::uint64_t heard() const { return heard_; }

 private:
  const MailPath& path_;
  const MailWords& words_;
  std::vector<bool> in_use_;  // indices
  std::uint64_t heard_ = 0;   // announcements
};

inline Status MailAnswers::accept(const Announcement& announcement) {
  if (announcement.number != heard_ + 1)
    return fail(Code::kDataLoss, "{} announces message {} where {} is next",
                path_.channel.peer_endpoint(), announcement.number, heard_ + 1);
  if (announcement.index >= in_use_.size() || in_use_[announcement.index])
    return fail(Code::kDataLoss, "{} announces message {} with index {}, which is in use or none",
                path_.channel.peer_endpoint(), announcement.number, announcement.index);
  ++heard_;
  in_use_[announcement.index] = true;
  return {};
}

}  // namespace ferry::mail
