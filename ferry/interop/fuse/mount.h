#pragma once

#include <functional>
#include <string>

#include "ferry/base/clock.h"
#include "ferry/ps/worker.h"

namespace ferry::interop {

struct MountOptions {
  ps::WorkerOptions worker{};                 // the mount is one worker of the job
  std::string folder;                         // an empty one, of this machine
  Nanos patience = std::chrono::seconds(60);  // for the job, and for each step
};

// Shows the tensors of a job as files, until it is unmounted or this process is told to end; then
// leaves the job. docs/files.md says what reading and writing them does. `on_ready` is called once,
// on the calling thread, when the folder is mounted and before anything is served: an open waits
// until it has returned.
Status mount_model(const MountOptions& options, const std::function<void()>& on_ready);

}  // namespace ferry::interop
