// Data path.
#include <deque>

#include "ferry/fabric/shm/in_flight_internal.h"

namespace ferry::fabric::shm {

namespace {

struct Room {
  SpinLock lock;
  std::deque<InFlight::Seat> seats FERRY_GUARDED_BY(lock);  // never shrinks: seats are handed on
};

// Never destroyed: threads may end after main() has.
Room& room() {
  static Room* made = new Room;
  return *made;
}

InFlight::Seat* take_seat() {
  Room& all = room();
  LockGuard<SpinLock> guard(all.lock);
  for (auto& seat : all.seats)
    if (!seat.taken.load(std::memory_order_relaxed)) {
      seat.taken.store(true, std::memory_order_relaxed);
      return &seat;
    }
  all.seats.emplace_back().taken.store(true, std::memory_order_relaxed);
  return &all.seats.back();
}

}  // namespace

void InFlight::sit_down() {
  // Gives the seat back when the thread ends.
  struct Leaver {
    ~Leaver() {
      LockGuard<SpinLock> guard(room().lock);
      seat_of_thread_->taken.store(false, std::memory_order_relaxed);
      seat_of_thread_ = nullptr;
    }
    void arm() {}
  };
  seat_of_thread_ = take_seat();
  static thread_local Leaver leaver;
  leaver.arm();
}

InFlight::Running InFlight::Running::now(Memory memory) {
  heavy_fence();
  Running running;
  Room& all = room();
  LockGuard<SpinLock> guard(all.lock);
  for (const auto& seat : all.seats) {
    auto sequence = seat.sequence.load(std::memory_order_acquire);
    if ((sequence & static_cast<std::uint64_t>(memory)) != 0)
      running.seen_.push_back({&seat, sequence});
  }
  return running;
}

bool InFlight::Running::ended() {
  std::erase_if(seen_, [](const Seen& seen) {
    return seen.seat->sequence.load(std::memory_order_acquire) != seen.sequence;
  });
  return seen_.empty();
}

}  // namespace ferry::fabric::shm
