// Data path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ferry/fabric/channel.h"
#include "ferry/ps/wire/abort_cause_internal.h"
#include "ferry/ps/wire/layout_internal.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// The outbox of a worker to one shard: the ring that entries are written to, the slots of the
// shard's pool that are this worker's, and the words that the shard writes here. Used by the thread
// that calls the worker; the words may be read by any thread.
//
// Between calls: the shard has taken entries up to landed(), and every slot is either free or used
// by one entry that was posted. Nothing is posted to a shard that is removed.
class ShardLink {
 public:
  // Removed: the place of a shard whose server is not connected.
  explicit ShardLink(std::uint32_t server) : server_(server) {}
  // With an empty ring and all slots free. The channel and the words outlive the link.
  ShardLink(std::uint32_t server, fabric::Channel& channel, const std::byte* words,
            const JobOptions& job);
  // Where ring and pool are. `pool`: null where the path maps nothing.
  void attach(const ShardPlace& place, std::byte* pool);

  std::uint32_t server() const { return server_; }
  fabric::Channel& channel() const { return *channel_; }

  // The job goes on without the shard's server.
  bool is_removed() const { return removed_; }
  void remove() { removed_ = true; }
  // A newcomer has the steps after `step`, and is not read while it catches up.
  void start_after(std::uint64_t step) { since_ = step; }
  bool has_step(std::uint64_t step) const { return since_ == 0 || step > since_; }
  void set_catching_up(bool catching_up) { catching_up_ = catching_up; }
  bool is_readable() const { return !removed_ && !catching_up_; }

  std::uint64_t landed() const { return load_word(words_, offsetof(Words, landed)); }
  std::uint64_t clock() const { return load_word(words_, offsetof(Words, clock)); }
  std::uint64_t attempt() const { return load_word(words_, offsetof(Words, redo)); }
  std::uint64_t view() const { return load_word(words_, offsetof(Words, view)); }
  // The job is over for this worker; attempt() is then an AbortCause.
  bool is_aborted() const { return AbortCause::is_word(attempt()); }

  std::uint64_t posted() const { return posted_; }
  bool has_taken_all() const { return landed() >= posted_; }
  // Whether an entry, and a payload if `slot`, can be posted now. Takes back the slots that the
  // shard does not need any more.
  bool has_room(bool slot);
  // There is room. Posts nothing, and says so, if the shard is not to have the entry.
  bool post(Entry entry);
  // The same for an entry whose payload, of one block at most, goes through a slot. The payload
  // stays where it is until the entry has landed.
  bool post_slot(Entry entry, std::span<const std::byte> payload);

 private:
  struct UsedSlot {
    std::uint64_t number = 0;  // of its entry
    std::uint64_t step = 0;
    bool at_once = false;  // free when the entry has landed, not only when the step is applied
    std::uint32_t slot = 0;
  };
  // First values go to newcomers whatever the step: they know which of them are needed.
  bool takes(const Entry& entry) const {
    return !removed_ && (entry.step > since_ || entry.operation == Operation::kAssign);
  }
  // Frees slots that the shard is done with, in the order of their use: its word counts them.
  void take_back_slots(std::uint64_t landed);

  std::uint32_t server_ = 0;
  bool removed_ = true;
  bool catching_up_ = false;
  bool keeps_slots_ = false;  // contributions stay in their slots until the step is applied
  std::uint64_t since_ = 0;
  fabric::Channel* channel_ = nullptr;
  const std::byte* words_ = nullptr;
  fabric::RemoteRegion ring_;
  fabric::RemoteRegion pool_;
  std::byte* pool_mapped_ = nullptr;
  std::uint32_t first_slot_ = 0;  // of this worker's own
  std::uint64_t block_bytes_ = 0;
  std::uint64_t posted_ = 0;
  std::vector<Entry> entries_;  // what lies in the ring
  // Slots in the order of their use, a ring with a place for each: from slots_back_ to slots_used_.
  std::vector<UsedSlot> used_;
  std::uint64_t slots_used_ = 0;
  std::uint64_t slots_back_ = 0;
  // The last one that came back is used first: it is still in the caches.
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace ferry::ps
