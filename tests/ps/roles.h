#pragma once

#include <array>

#include "tests/ps/kit.h"

namespace ferry::ps::testing {

// Exit status of a server whose job did not end well: this, and the error's code.
inline constexpr int kServerEnded = 64;

// See late_test.cc.
int pull_late(const std::vector<std::string>& words);

// A scheduler that keeps its state, as a process. It says where it is in the file `endpoint` of the
// folder.
struct Scheduling {
  std::string folder;
  JobOptions job{};
  Nanos away = 30s;

  std::string state() const { return folder + "/state"; }
  SchedulerOptions options() const;
  Process start() const;
  // Waits until it is there.
  std::string endpoint() const;
};

// A job of several worker processes, one of which dies, or which lose a server; they compare what
// they have in the end with a sequential model.
struct Training {
  static constexpr int kBegunAnew = 42;  // exit status: all is well, and a step was pushed again
  std::string role = "train";            // or add: without steps in common
  std::string scheduler;
  std::string provider;
  std::uint32_t workers = 3;
  std::uint64_t steps = 6;
  std::uint32_t victim = ~0U;  // nobody
  std::uint64_t victim_step = 3;
  // between: two tensors of a step; before, after: its end; stopped: hangs between them; paused:
  // the same, and goes on later
  std::string how = "none";
  std::size_t count = 30011;
  double patience = kSlower;
  // Worker 0 sends this signal to this process in the middle of `victim_step`.
  int hit = 0;
  int signal = 0;
  std::uint32_t hosts = 0;  // of a job that merges: rank r is on host r % hosts

  // Its two tensors.
  std::array<Parameter, 2> init(Worker& worker, Deadline deadline) const;
  std::vector<std::string> arguments(std::uint32_t rank) const;
  static Training parse(const std::vector<std::string>& words, std::uint32_t& rank);
};

}  // namespace ferry::ps::testing
