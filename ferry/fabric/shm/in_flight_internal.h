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
//   toucher: sequence = busy; light_fence; grant stands? then copy; sequence = idle
//   revoker: the grant is gone from the table; heavy_fence; wait until busy sequences have changed
class InFlight {
 public:
  // Whose granted memory a section touches. A revoker waits for the sections of one kind only: a
  // section on peers' memory may last as long as a peer lets it, one on own memory lasts for a
  // copy.
  enum class Memory : std::uint8_t { kPeers = 1, kOwn = 2, kBoth = 3 };

  struct alignas(64) Seat {
    std::atomic<std::uint64_t> sequence{0};  // lowest two bits: Memory while in a section, else 0
    std::atomic<bool> taken{false};
  };

  // While it lives, this thread may touch memory whose grant it has then seen standing. Does not
  // nest.
  class Section {
   public:
    explicit Section(Memory memory) : seat_(mine()) {
      auto sequence =
          seat_.sequence.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(memory);
      seat_.sequence.store(sequence, std::memory_order_relaxed);
      light_fence();
    }
    ~Section() {
      auto sequence = seat_.sequence.load(std::memory_order_relaxed) | kBusy;
      seat_.sequence.store(sequence + 1, std::memory_order_release);
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    Seat& seat_;
  };

  // The sections on this kind of memory that were running when this was made.
  class Running {
   public:
    static Running now(Memory memory);
    // True once all of them have ended.
    bool ended();

   private:
    struct Seen {
      const Seat* seat;
      std::uint64_t sequence;
    };
    std::vector<Seen> seen_;
  };

 private:
  static constexpr std::uint64_t kBusy = 3;
  static Seat& mine() {
    if (seat_of_thread_ == nullptr) sit_down();
    return *seat_of_thread_;
  }
  static void sit_down();
  static inline constinit thread_local Seat* seat_of_thread_ = nullptr;
};

}  // namespace ferry::fabric::shm
