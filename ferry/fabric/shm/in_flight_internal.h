// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "ferry/fabric/loop_internal.h"

namespace ferry::fabric::shm {

// Who of this process is touching granted memory right now. A thread marks the time from its look
// at the grant table to its last store with plain stores to a seat of its own; whoever has to know
// that a revoked grant is out of use pays instead, with a membarrier.
//
//   toucher: turn = odd; light_fence; grant stands? then copy; turn = even
//   revoker: the grant is gone from the table; heavy_fence; wait until odd turns have changed
class InFlight {
 public:
  struct alignas(64) Seat {
    std::atomic<std::uint64_t> turn{0};  // odd: in a section
    std::atomic<bool> taken{false};
  };

  // While it lives, this thread may touch memory whose grant it has then seen standing. Does not
  // nest.
  class Section {
   public:
    Section() : seat_(mine()) {
      seat_.turn.store(seat_.turn.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      light_fence();
    }
    ~Section() {
      seat_.turn.store(seat_.turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Seat& seat_;
  };

  // The sections that were running when this was made.
  class Running {
   public:
    static Running now();
    // True once all of them have ended.
    bool ended();

   private:
    struct Seen {
      const Seat* seat;
      std::uint64_t turn;
    };
    std::vector<Seen> seen_;
  };

 private:
  static Seat& mine() {
    if (seat_of_thread_ == nullptr) sit_down();
    return *seat_of_thread_;
  }
  static void sit_down();
  static inline constinit thread_local Seat* seat_of_thread_ = nullptr;
};

}  // namespace ferry::fabric::shm
