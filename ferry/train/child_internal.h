#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"

namespace ferry::train {

// Lines of text both ways over a pair of pipes. One thread.
class Lines {
 public:
  Lines(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {}

  int in() const { return in_.get(); }
  // kUnavailable if the other side is gone.
  Status say(const std::string& line);
  // The next line; waits for it. kUnavailable at the end.
  Result<std::string> hear(Deadline deadline);
  // The next line if it is there already, none if not. kUnavailable at the end.
  Result<std::optional<std::string>> hear_now();

 private:
  Result<bool> read_some();

  Fd in_;
  Fd out_;
  std::string text_;
};

// A process that runs a function, and ends with it, or with the process that made it. Move-only;
// killed and waited for when it goes. The maker has no threads that matter to the child.
class Child {
 public:
  static Result<Child> start(const std::function<int(Lines&)>& body);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), lines_(std::move(other.lines_)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  Lines& lines() { return lines_; }
  pid_t pid() const { return pid_; }
  // Waits for its end, which its closed pipe has announced: "exited with status 1", "was killed by
  // signal 9".
  std::string wait();

 private:
  Child(pid_t pid, Lines lines) : pid_(pid), lines_(std::move(lines)) {}
  pid_t pid_ = -1;
  Lines lines_;
};

}  // namespace ferry::train
