#pragma once

#include <atomic>
#include <cstdint>

#include "ferry/base/clock.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/base/waiting.h"

namespace ferry {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

// For who spins on a lock and has looked `spins` times: pauses, and once its holder must have been
// descheduled (more threads than cores), yields.
void pause_or_yield(int spins);

// A try-lock whose holder may do what only one may do at a time.
class FERRY_CAPABILITY("token") Token {
 public:
  bool try_take() FERRY_TRY_ACQUIRE(true) {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  // Waits, where there is no other way; holders keep it for a burst of work at most.
  void take() FERRY_ACQUIRE() FERRY_NO_THREAD_SAFETY_ANALYSIS {
    for (int spins = 0; !try_take(); ++spins) pause_or_yield(spins);
  }
  void give_back() FERRY_RELEASE() { held_.store(false, std::memory_order_release); }
  bool held() const { return held_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> held_{false};
};

// A lock for a few instructions.
class FERRY_CAPABILITY("mutex") SpinLock {
 public:
  void lock() FERRY_ACQUIRE() {
    for (int spins = 0; held_.exchange(true, std::memory_order_acquire); ++spins) {
      while (held_.load(std::memory_order_relaxed)) pause_or_yield(spins++);
    }
  }
  bool try_lock() FERRY_TRY_ACQUIRE(true) {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() FERRY_RELEASE() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Scoped lock for either lock type of this library.
template <class Lock>
class FERRY_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) FERRY_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() FERRY_RELEASE() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

// How long a waiter spins before it sleeps. Only its own time counts: with more runnable threads
// than cores, a polite spinner offers its core to the others every few microseconds, which is a far
// cheaper way to let them bring what it waits for than to sleep and be woken.
//
// Where each turn is a system call (`costly`), many spinners would still take the machine from
// those who have work: they look at the clock more often, and go to sleep when others have run
// twice.
class SpinBudget {
 public:
  explicit SpinBudget(Nanos budget, bool polite = false, bool costly = false)
      : budget_(budget.count()), polite_(polite), costly_(costly) {}
  // True while it pays to spin once more; relaxes the core.
  bool spin_again() {
    cpu_relax();
    if (++count_ %
            (costly_ || crowded_ ? waiting::kPausesPerYieldCrowded : waiting::kPausesPerYield) !=
        0)
      return true;
    return check_clock();
  }
  void restart() { start_ = 0; }

 private:
  bool check_clock();
  std::int64_t budget_;
  bool polite_;
  bool costly_;
  bool crowded_ = false;
  std::int64_t start_ = 0;
  std::int64_t last_ = 0;
  unsigned count_ = 0;
  unsigned gave_way_ = 0;
};

}  // namespace ferry
