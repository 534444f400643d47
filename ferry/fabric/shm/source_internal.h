// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ferry/base/waiting.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/shm/layout_internal.h"

namespace ferry::fabric::shm {

// The lanes of one loop. A look at two words tells whether any of them has something to do.
//
// A bit of the doorbell stays set while its lane is busy: then neither end has to write to the
// word, and each request crosses with its ring's own lines only.
//
// A template, so that the loop calls lanes without a virtual call and this file knows nothing of
// them: a lane has index(), progress_on_loop(), wants_progress() and tick_on_loop(now).
template <class LaneType>
class DoorbellSource final : public Loop::Source {
 public:
  DoorbellSource(Loop& loop, std::uint32_t number, Doorbell& doorbell)
      : loop_(loop), number_(number), doorbell_(doorbell) {}

  // Gives the lane its index, and takes it back. Not from within the loop.
  std::uint32_t add(LaneType* lane);
  void remove(LaneType* lane);

  // The lane of this index has work that nobody may ring the doorbell for. Any thread.
  void activate(std::uint32_t index) {
    // What there is to do was stored before. The loop clears the bit and looks once more.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    auto bit = std::uint64_t{1} << (index % kBits);
    if ((active_.load(std::memory_order_relaxed) & bit) == 0) active_.fetch_or(bit);
  }

  bool has_work() const {
    return (doorbell_.lanes.load(std::memory_order_relaxed) |
            active_.load(std::memory_order_relaxed)) != 0;
  }
  int progress_on_loop() override { return has_work() ? progress_lanes_on_loop() : 0; }
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override { return active_.load(std::memory_order_relaxed) != 0; }

  Loop& loop() const { return loop_; }
  std::uint32_t number() const { return number_; }

 private:
  int progress_lanes_on_loop();
  int progress_bit_on_loop(std::uint32_t bit);
  void rest_on_loop(std::uint32_t bit);

  Loop& loop_;
  const std::uint32_t number_;  // of the loop in its device
  Doorbell& doorbell_;
  std::atomic<std::uint64_t> active_{0};
  // By bit: the lanes whose index has it. Changed and walked by the token's holder only.
  std::array<std::vector<LaneType*>, kBits> lanes_;
  std::array<std::uint16_t, kBits> idle_{};  // looks in a row that found nothing
  std::uint32_t next_index_ = 0;
};

template <class LaneType>
std::uint32_t DoorbellSource<LaneType>::add(LaneType* lane) {
  return loop_.with_token([&] {
    auto index = next_index_++;
    lanes_[index % kBits].push_back(lane);
    return index;
  });
}

template <class LaneType>
void DoorbellSource<LaneType>::remove(LaneType* lane) {
  loop_.with_token([&] { std::erase(lanes_[lane->index() % kBits], lane); });
}

template <class LaneType>
int DoorbellSource<LaneType>::progress_lanes_on_loop() {
  auto bits =
      doorbell_.lanes.load(std::memory_order_acquire) | active_.load(std::memory_order_acquire);
  int work = 0;
  for (; bits != 0; bits &= bits - 1) {
    auto bit = static_cast<std::uint32_t>(__builtin_ctzll(bits));
    int done = progress_bit_on_loop(bit);
    work += done;
    if (done != 0) {
      idle_[bit] = 0;
    } else if (++idle_[bit] >= waiting::kDoorbellLooks) {
      rest_on_loop(bit);
    }
  }
  return work;
}

template <class LaneType>
int DoorbellSource<LaneType>::progress_bit_on_loop(std::uint32_t bit) {
  int work = 0;
  for (LaneType* lane : lanes_[bit]) work += lane->progress_on_loop();
  return work;
}

// Clears the bit, then looks once more: a peer that found it set did not set it again.
template <class LaneType>
void DoorbellSource<LaneType>::rest_on_loop(std::uint32_t bit) {
  idle_[bit] = 0;
  auto mask = ~(std::uint64_t{1} << bit);
  doorbell_.lanes.fetch_and(mask);
  active_.fetch_and(mask);
  bool busy = progress_bit_on_loop(bit) != 0;
  for (LaneType* lane : lanes_[bit]) busy = lane->wants_progress() || busy;
  if (busy) activate(bit);
}

template <class LaneType>
void DoorbellSource<LaneType>::tick_on_loop(std::int64_t now) {
  for (auto& lanes : lanes_)
    for (LaneType* lane : lanes) lane->tick_on_loop(now);
}

}  // namespace ferry::fabric::shm
