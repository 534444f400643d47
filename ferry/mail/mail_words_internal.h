// Data path.
#pragma once

#include <utility>
#include <vector>

#include "ferry/fabric/region.h"
#include "ferry/landing/layout.h"
#include "ferry/landing/remote_word.h"
#include "ferry/mail/mail_record_internal.h"

namespace ferry::mail {

// The words by which the two ends answer each other outside of slots, one line for each rendezvous
// index (docs/wire/messages.md): this end's lines, which the peer writes, and the peer's lines,
// which this end writes. Any thread, no lock.
//
// A line of this end holds the peer's answer to the announcement with that index; then, written by
// this end and read by the peer, the number of the last announcement that this end has given up;
// then, in line 0, whether the peer has closed its mailbox.
class MailWords {
 public:
  MailWords(fabric::Region own, std::vector<landing::RemoteWord> peers,
            const landing::RemoteWord& closed_at_peer)
      : own_(std::move(own)), peers_(std::move(peers)), closed_at_peer_(closed_at_peer) {}

  std::uint64_t answer(std::uint32_t index) const {
    return __atomic_load_n(line(index), __ATOMIC_ACQUIRE);
  }
  // The peer sees why when it cannot read the message's memory any more.
  void give_up(std::uint32_t index, std::uint64_t number) const {
    __atomic_store_n(line(index) + kGivenUpAt, number, __ATOMIC_RELEASE);
  }
  // Whether the peer has said that its mailbox is closed: all that it sent before is there, and its
  // words and slots are not to be touched any more.
  bool peer_closed() const { return __atomic_load_n(line(0) + kClosedAt, __ATOMIC_ACQUIRE) != 0; }

  // Answers the peer's announcement, unless nobody is there to be told.
  Status store_answer(std::uint32_t index, const MailWord& word) const {
    return peer_closed() ? Status() : peers_[index].store(word.to_u64());
  }
  // Tells the peer that this mailbox is closed, behind every batch.
  fabric::Transfer store_closed(Deadline deadline) const {
    return closed_at_peer_.start(1, deadline);
  }

  // Where, in the words of the end that announces, it says that it has given a message up; and
  // where the other end says that it is closed.
  static std::uint64_t given_up_offset(std::uint32_t index) {
    return index * landing::Layout::kLine + kGivenUpAt * sizeof(std::uint64_t);
  }
  static constexpr std::uint64_t closed_offset() { return kClosedAt * sizeof(std::uint64_t); }

 private:
  static constexpr std::size_t kGivenUpAt = 1;
  static constexpr std::size_t kClosedAt = 2;
  std::uint64_t* line(std::uint32_t index) const {
    return reinterpret_cast<std::uint64_t*>(own_.data() + index * landing::Layout::kLine);
  }

  const fabric::Region own_;
  const std::vector<landing::RemoteWord> peers_;
  const landing::RemoteWord closed_at_peer_;
};

}  // namespace ferry::mail
