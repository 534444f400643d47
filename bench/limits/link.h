#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

// What the two processes of a pair share, made before the second one is forked.
namespace limits {

// Why a run could not be done; becomes the program's `error` line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail_errno(const std::string& what);

enum class Side { kGiver, kTaker };

// A word on a pair of cache lines of its own that one process raises and the other awaits.
struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Link {
 public:
  // Reserves `shared_bytes` of address space that both processes will see at the same place. Pages
  // cost memory only once they are touched.
  explicit Link(std::size_t shared_bytes);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Forks. Each process then runs on a core of its own where two are allowed. The taker dies with
  // the giver.
  Side split();

  Side side() const { return side_; }
  pid_t giver_pid() const { return giver_; }
  pid_t taker_pid() const { return taker_; }
  std::span<std::byte> shared() const { return shared_; }
  // Gives the pages behind `part` of shared() back to the system.
  void drop(std::span<std::byte> part) const;
  // 64 KiB in which the sides leave each other addresses and keys; order by meet().
  std::span<std::byte> blackboard() const;

  // Returns in both processes once both have called it.
  void meet();
  // The taker's half of a meet for which there is no deadline: it sleeps until the giver has work.
  void rest();

  static void raise(Flag& flag, std::uint32_t value, bool sleep);
  // Until the flag has the value. Spins or sleeps. Throws Failure after a minute, and in the giver
  // also when the taker has failed or died.
  void await(Flag& flag, std::uint32_t value, bool sleep) {
    await_until(flag, sleep, [value](std::uint32_t seen) { return seen == value; });
  }
  template <class Predicate>
  void await_until(Flag& flag, bool sleep, Predicate enough) {
    Patience patience;
    for (;;) {
      const auto seen = flag.value.load(std::memory_order_acquire);
      if (enough(seen)) return;
      if (sleep) {
        sleep_while(flag, seen, patience);
      } else {
        spin(patience);
      }
    }
  }

  // For spinning loops of one's own: `spins` counts the turns of one wait, starting at 0.
  struct Patience {
    std::uint32_t spins = 0;
    std::int64_t since_ns = 0;
  };
  void spin(Patience& patience) {
    relax();
    if (++patience.spins % 4096 == 0) check(patience);
  }
  void check(Patience& patience);

  // The taker's last words.
  void leave_failure(const std::string& sentence) const;
  // Kills the taker unless it is gone already.
  void end_taker();

 private:
  // Sleeps a little, at most until the flag's value is another than `seen`.
  void sleep_while(Flag& flag, std::uint32_t seen, Patience& patience);

  struct Board;
  Board* board_ = nullptr;
  std::span<std::byte> shared_;
  Side side_ = Side::kGiver;
  pid_t giver_ = 0;
  pid_t taker_ = 0;
  bool taker_gone_ = false;
  std::uint32_t met_ = 0;
};

// Private zeroed pages, faulted in. What malloc gives for large blocks.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// Writes to every page, so that none faults later.
void fault_in(std::span<std::byte> bytes);

std::int64_t now_ns();
// User and system time of all threads of this process.
std::int64_t cpu_ns();

}  // namespace limits
