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
class ChildProgram {
 public:
  // `settings` are NAME=VALUE, beside and before this process's environment.
  static Result<ChildProgram> start(const std::string& path, const std::vector<std::string>& args,
                                    Complaints complaints = Complaints::kToOurs,
                                    const std::vector<std::string>& settings = {});

  ChildProgram(ChildProgram&& other) noexcept;
  ChildProgram& operator=(ChildProgram&& other) noexcept;
  // Kills what still runs.
  ~ChildProgram();

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
  ChildProgram(pid_t pid, Fd in, Fd out) : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}
  // Its wait status, once it has ended.
  std::optional<int> reap(Nanos span);

  pid_t pid_ = -1;
  Fd in_;
  Fd out_;
  std::string unread_;
};

}  // namespace ferry::cli
