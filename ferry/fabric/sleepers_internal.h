// Data path.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/base/fd.h"

namespace ferry::fabric {

// Words that other processes look at to learn whether somebody here sleeps. In shared memory when
// the shm provider is on. Written by this process only.
struct alignas(64) Bell {
  std::atomic<std::uint32_t> flag_sleepers{0};  // threads asleep until a flag or completion comes
  std::atomic<std::uint32_t> any_sleepers{0};   // the same plus the idle poller: for messages
};

// Who sleeps on a loop, and how they are woken. One user thread at most sleeps in the loop's epoll,
// which the eventfd wakes; guests sleep in event loops of their own that have the epoll in their
// set; all others sleep on a futex, the generation. Thread-safe and lock-free.
//
// No wake-up is lost: a sleeper announces itself, then looks at what it waits for once more;
// whoever completes something completes it, fences, and then looks at who has announced itself.
class Sleepers {
 public:
  Status open();  // fails where the process has no descriptor left
  // Becomes readable when rung; other processes write to it when the bell says that somebody
  // sleeps.
  int event_fd() const { return event_.get(); }
  void drain_event() const;

  // Wakes all of them so that they look again.
  void notify();
  // Something was completed. `by_sleeper`: by the thread that slept in epoll, which is awake. Rung
  // by itself, it would not sleep again until its wait is over.
  void wake_after_progress(bool by_sleeper);
  void wake_on_futex();

  // The one place in epoll: false if it is taken.
  bool try_take_epoll() { return !epoll_taken_.exchange(true, std::memory_order_acquire); }
  void leave_epoll();
  // Sleeps until a generation passes, unless ready() or the place in epoll is free.
  template <class Ready>
  void sleep_on_futex(Ready& ready, Nanos at_most) {
    const auto seen = generation_.load(std::memory_order_seq_cst);
    on_futex_.fetch_add(1, std::memory_order_seq_cst);
    if (!ready() && epoll_taken_.load(std::memory_order_seq_cst))
      wait_for_generation(seen, at_most);
    on_futex_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Before and after a sleep that a ring ends, by a user thread. retract() takes the bell that
  // announce() gave.
  Bell& announce();
  void retract(Bell& bell);
  Bell& announce_poller();
  void retract_poller(Bell& bell) { bell.any_sleepers.fetch_sub(1, std::memory_order_relaxed); }
  void announce_guest();
  void retract_guest();
  bool has_guest() const { return guests_.load(std::memory_order_relaxed) != 0; }
  // Others sleep elsewhere until something comes here: `delta` is 1 or, to take it back, -1.
  void count_elsewhere(int delta);

  bool anybody_asleep() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return bell_.load(std::memory_order_acquire)->any_sleepers.load(std::memory_order_relaxed) != 0;
  }
  // nullptr: the private one. With the loop's token.
  void use_bell(Bell* bell, std::shared_ptr<const void> memory);

 private:
  void ring() const;
  void wait_for_generation(std::uint32_t seen, Nanos at_most);

  Fd event_;
  Bell private_bell_;
  // Loaded with acquire: the poller may be the first to touch memory that another thread has
  // mapped.
  std::atomic<Bell*> bell_{&private_bell_};
  // A sleeper may still be at a bell that was used before.
  std::vector<std::shared_ptr<const void>> bell_memory_;
  std::atomic<std::uint32_t> in_epoll_{0};  // a user thread, and guests
  std::atomic<bool> epoll_taken_{false};
  std::atomic<std::uint32_t> guests_{0};
  std::atomic<std::uint32_t> on_futex_{0};
  std::atomic<std::uint32_t> generation_{0};
};

}  // namespace ferry::fabric
