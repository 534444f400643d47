#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/ps/wire/abort_cause_internal.h"
#include "ferry/ps/wire/layout_internal.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// A payload in a slot that is still needed, or waits for those before it.
struct HeldSlot {
  static constexpr std::uint32_t kConsumed = ~0U;
  std::uint32_t part = 0;
  std::uint32_t block = kConsumed;
};

// One worker at one shard: the ring and the slots that it writes to, and the words that the shard
// writes to it. Belongs to the shard's thread. Words only grow; after the worker is frozen, the
// shard writes none but the cause.
class WorkerConnection {
 public:
  // kServed -> kWaiting: its next entry has to wait for other workers. kWaiting -> kServed: others
  // have done something. Any -> kFrozen: no entry is taken any more; that is for good.
  enum class State { kServed, kWaiting, kFrozen };

  // `slots`: the first of the worker's own. `own_slots` has them if they are not the pool's.
  WorkerConnection(std::uint32_t rank, std::shared_ptr<fabric::Channel> channel,
                   const fabric::RemoteAt& words, fabric::Region ring, const std::byte* slots,
                   fabric::Region own_slots)
      : rank_(rank),
        channel_(std::move(channel)),
        words_(words),
        ring_(std::move(ring)),
        slots_(slots),
        own_slots_(std::move(own_slots)) {}

  std::uint32_t rank() const { return rank_; }
  fabric::Channel& channel() const { return *channel_; }
  bool is_alive() const { return channel_->alive(); }
  // What the worker pushed is not needed any more: its memory was mapped by the channel.
  void drop_channel() { channel_.reset(); }
  bool is_frozen() const { return state_ == State::kFrozen; }
  void freeze() { state_ = State::kFrozen; }
  // The worker has broken the protocol, or the job has failed: it is told which.
  void abort(const AbortCause& cause) { write_word(offsetof(Words, redo), cause.to_word()); }

  // The next entry, copied once, since the worker could still write it. False: none has come.
  bool read_next(Entry& entry) const;
  bool has_work() const { return state_ == State::kServed && has_next(); }
  bool is_next(const Entry& entry) const { return entry.number == taken_ + 1; }
  std::uint64_t taken() const { return taken_; }
  void count_taken() { ++taken_; }
  void wait_for_others() { state_ = State::kWaiting; }
  void resume() {
    if (state_ == State::kWaiting) state_ = State::kServed;
  }

  // Where the payload of an entry is, or null if it cannot be there.
  const std::byte* payload(const Entry& entry, const JobOptions& job) const;
  void add_memory(std::span<const std::byte> memory) { memories_.push_back(memory); }
  // Where the worker wants what it asks to have sent back of a part.
  void set_landing(std::uint32_t part, const fabric::RemoteAt& at);
  const fabric::RemoteAt* landing(std::uint32_t part) const {
    return part < landings_.size() && landings_[part].at ? &*landings_[part].at : nullptr;
  }
  // In the open step the worker wants its part sent back; it has a landing for it.
  void want_back(std::uint32_t part) { landings_[part].wanted = true; }
  bool wants_back(std::uint32_t part) const {
    return part < landings_.size() && landings_[part].wanted;
  }

  // Slots are given back in the order in which they were used.
  void hold_slot(const HeldSlot& slot) { held_.push_back(slot); }
  const std::deque<HeldSlot>& held_slots() const { return held_; }
  void give_back_oldest();

  // Tells a worker what it would know if it had been there from the beginning.
  void greet(std::uint64_t view, std::uint64_t clock, std::uint32_t attempt);
  void report_view(std::uint64_t view) { write_word(offsetof(Words, view), view); }
  void report_clock(std::uint64_t clock) { write_word(offsetof(Words, clock), clock); }
  // The step is applied, which gives all slots back, or restarts.
  void end_step(std::uint64_t clock);
  void restart_step(std::uint32_t attempt);
  // The worker waits for word of what it has just sent.
  void ask_for_report() { must_report_ = true; }
  // Writes what has changed. `lazy`: of entries only when asked, or when the ring is filling up.
  void report_landed(bool lazy);
  void report_slots();

 private:
  struct Landing {
    std::optional<fabric::RemoteAt> at;
    bool wanted = false;
  };
  // Where the next entry is, or will be.
  const std::byte* next() const { return ring_.data() + taken_ % kRingEntries * kLine; }
  bool has_next() const { return fabric::flag_reached(next() + Entry::kBody, taken_ + 1); }
  // Gives all slots back; nothing is wanted back any more.
  void give_back_all();
  // Stores one of the worker's Words. A failure is a worker that is gone, which the scheduler sees.
  void write_word(std::size_t word, std::uint64_t value);

  const std::uint32_t rank_;
  std::shared_ptr<fabric::Channel> channel_;
  const fabric::RemoteAt words_;
  fabric::Region ring_;
  const std::byte* slots_;
  fabric::Region own_slots_;
  State state_ = State::kServed;
  std::vector<std::span<const std::byte>> memories_;
  std::vector<Landing> landings_;  // by part
  std::uint64_t taken_ = 0;
  std::uint64_t told_landed_ = 0;
  std::uint64_t given_back_ = 0;  // slots
  std::uint64_t told_slots_ = 0;
  std::deque<HeldSlot> held_;
  bool must_report_ = false;
};

}  // namespace ferry::ps
