#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"

namespace ferry::cli {

// Where what a child says on standard error goes.
enum class Complaints { kToOurs, kWithTheRest };

// A program that was started: a round program that answers lines, or one that says something and
// ends. In a process group of its own, so that Ctrl-C reaches it only through us. Move-only, not
// thread-safe.
class RoundChild {
 public:
  // `settings` are NAME=VALUE, beside and before this process's environment.
  static Result<RoundChild> start(const std::string& path, const std::vector<std::string>& args,
                                  Complaints complaints = Complaints::kToOurs,
                                  const std::vector<std::string>& settings = {});

  RoundChild(RoundChild&& other) noexcept;
  RoundChild& operator=(RoundChild&& other) noexcept;
  // Kills what still runs.
  ~RoundChild();

  // Writes one line and reads one line. After a failure the child is of no more use.
  Result<std::string> ask(const std::string& line, Deadline deadline);

  // The next line that it says, asked or not.
  Result<std::string> read_line(Deadline deadline);

  // What it says next, as soon as there is something; empty when it says no more. kCancelled when
  // interrupted.
  Result<std::string> read_some(Deadline deadline);

  // For one that says no more: its exit status, or 128 and its signal. Kills it after `patience`.
  int wait(Nanos patience);

  // Asks its process group to end by SIGTERM, and kills it when the child has not within `grace`.
  void end(Nanos grace);

  // Asks it to quit, and kills its process group when it has not within a second.
  void stop();
  void kill_now();

 private:
  RoundChild(pid_t pid, Fd in, Fd out) : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}
  // Its wait status, once it has ended.
  std::optional<int> reap(Nanos span);

  pid_t pid_ = -1;
  Fd in_;
  Fd out_;
  std::string unread_;
};

// While it lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT only set a flag and end blocking calls, a
// child that dies does not take us with it by SIGPIPE, and what a killed child had started becomes
// our child, so that no zombie is left. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
  // What a shell calls it: 130 after SIGINT, 143 after SIGTERM. 0 when nothing came.
  static int exit_code();
};

}  // namespace ferry::cli
