#pragma once

#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/fabric/options.h"
#include "ferry/mail/wait_spin.h"
#include "ferry/ps/options.h"

namespace ferry::cli {

// `ferry ps --local SxW -- program`.
struct PsLocal {
  ps::JobOptions job;
  fabric::Options device;
  std::string restore;                    // folder of snapshots
  Nanos lease = std::chrono::seconds(3);  // SchedulerOptions::lease
  std::uint32_t shards = 1;
  bool pslite = false;  // the program plays all roles, as ps-lite's do
  std::vector<std::string> program;
};
struct PsProcess {
  std::string name;  // "server 1", "worker 0"
  std::string end;   // "ended well", "exited with status 3", "was killed by signal 9"
  bool well = false;
};
struct PsOutcome {
  std::vector<PsProcess> processes = {};
  double seconds = 0;
  mail::SpinInUse spin = {};  // of processes that use Options::spin
  bool well() const;
};
// Starts everything, waits for it, and ends the rest when something fails. kCancelled if
// interrupted.
Result<PsOutcome> run_ps_local(const PsLocal& local);

}  // namespace ferry::cli
