// Data path.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/shm/layout_internal.h"

namespace ferry::fabric::shm {

class ShmLane;

// The lanes of one loop. A look at two words tells whether any of them has something to do.
//
// A bit of the doorbell stays set while its lane is busy: then neither end has to write to the
// word, and each request crosses with its ring's own lines only.
class ShmSource final : public Loop::Source {
 public:
  ShmSource(Loop& loop, std::uint32_t number, Doorbell& doorbell)
      : loop_(loop), number_(number), doorbell_(doorbell) {}

  // Gives the lane its index, and takes it back. Not from within the loop.
  std::uint32_t add(ShmLane* lane);
  void remove(ShmLane* lane);

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
  std::array<std::vector<ShmLane*>, kBits> lanes_;
  std::array<std::uint16_t, kBits> idle_{};  // looks in a row that found nothing
  std::uint32_t next_index_ = 0;
};

}  // namespace ferry::fabric::shm
