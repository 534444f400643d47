#pragma once

namespace ferry::cli {

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
