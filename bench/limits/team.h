#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/limits/link.h"

namespace limits {

// A few processes that measure something together. Made by the process that starts them; each
// member then runs its part. What a member throws ends the measurement with its sentence; members
// die with whoever started them.
class Team {
 public:
  static constexpr int kMost = 128;
  using Part = std::function<void(Team& team, int me)>;

  explicit Team(int members);
  // Kills what still runs.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int members() const { return members_; }
  // Forks them all. Call once, while this process has no other thread.
  void start(const Part& part);
  // For a starter that waits for one of them itself: this one has ended. Throws when it failed.
  void ended(pid_t pid, int status);
  // Waits until all have ended. Throws Failure when one failed or died, or after a minute.
  void finish();

  // Members. Returns once all of them have called it. Sleeps meanwhile.
  void meet();

  // What members leave each other and the starter; order by meet() or finish().
  void set_endpoint(int member, const std::string& endpoint);
  std::string endpoint(int member) const;
  void report(std::size_t index, double value);
  double reported(std::size_t index) const;

 private:
  struct Board;
  [[noreturn]] void run_member(const Part& part, int me);
  void throw_if_failed() const;

  const int members_;
  Board* board_;
  std::vector<pid_t> pids_;
  std::uint32_t met_ = 0;
};

// Of one call of one client: no two alike.
inline std::uint64_t call_mark(std::uint64_t call, std::uint64_t client) {
  return call * Team::kMost + client;
}

// Calls until the end; how many of the calls began between the two times.
template <class Call>
double calls_within(double begin_ns, double end_ns, Call call) {
  double count = 0;
  for (;;) {
    const auto now = static_cast<double>(now_ns());
    if (now >= end_ns) return count;
    call();
    if (now >= begin_ns) ++count;
  }
}

}  // namespace limits
