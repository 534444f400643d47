#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"

namespace ferry::cli {

// A round program that was started and answers lines. In a process group of its own, so that
// Ctrl-C reaches it only through us. Move-only, not thread-safe.
class RoundChild {
 public:
  static Result<RoundChild> start(const std::string& path, const std::vector<std::string>& args);

  RoundChild(RoundChild&& other) noexcept;
  RoundChild& operator=(RoundChild&& other) noexcept;
  // Kills what still runs.
  ~RoundChild();

  // Writes one line and reads one line. After a failure the child is of no more use.
  Result<std::string> ask(const std::string& line, Deadline deadline);

  // The next line that it says, asked or not.
  Result<std::string> read_line(Deadline deadline);

  // Asks it to quit, and kills its process group when it has not within a second.
  void stop();
  void kill_now();

 private:
  RoundChild(pid_t pid, Fd in, Fd out) : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}
  bool reaped_within(Nanos span);

  pid_t pid_ = -1;
  Fd in_;
  Fd out_;
  std::string unread_;
};

// While it lives, SIGINT and SIGTERM only set a flag and end blocking calls, a child that dies does
// not take us with it by SIGPIPE, and what a killed child had started becomes our child, so that no
// zombie is left. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
};

}  // namespace ferry::cli
