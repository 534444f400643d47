#pragma once

#include "ferry/base/error.h"
#include "ferry/ps/worker.h"

namespace ferry::interop {

// How a program that `ferry ps --local` has started finds its job. kFailedPrecondition if nobody
// has: then the options are the program's own to say.
Result<ps::WorkerOptions> launched_worker();

}  // namespace ferry::interop
