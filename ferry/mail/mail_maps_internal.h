#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferry/mail/mail_parcel_internal.h"

namespace ferry::mail {

// A message whose memory is being mapped by a thread, without the mailbox's lock.
struct MailMapping {
  MailParcel* parcel = nullptr;  // null: there is none
  std::vector<fabric::RemoteRegion> regions;
  std::vector<std::pair<std::uint64_t, std::span<std::byte>>> found;  // by key
};

// The peer's memory as memory of this process, and the messages that wait for it to become so. Runs
// under the mailbox's lock.
class MailMaps {
 public:
  // Regions of the announcement that were never looked at.
  std::vector<fabric::RemoteRegion> new_regions(const Announcement& announcement) const;
  // Makes the message's parts views of the sender's memory. False: it is to be read; what is wrong
  // with it shows then.
  bool use_in_place(MailParcel& parcel) const;

  void add_waiting(MailParcel* parcel) { waiting_.push_back(parcel); }
  void forget(MailParcel& parcel) { std::erase(waiting_, &parcel); }
  bool has_waiting() const { return !waiting_.empty(); }
  // The first message that waits, for a thread that maps its memory.
  MailMapping begin();
  void finish(const MailMapping& mapping) {
    by_key_.insert(mapping.found.begin(), mapping.found.end());
    mapping.parcel->busy = false;
  }

 private:
  std::optional<std::span<std::byte>> find(const Announcement::Piece& piece,
                                           std::uint64_t bytes) const;

  std::vector<MailParcel*> waiting_;  // nobody maps their memory yet
  std::unordered_map<std::uint64_t, std::span<std::byte>> by_key_;
};

}  // namespace ferry::mail
