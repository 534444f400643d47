#pragma once

#include "ferry/interop/c/ps.h"
#include "ferry/ps/worker.h"

namespace ferry::interop {

Result<ps::WorkerOptions> worker_options(const ferry_worker_options* raw);
Result<ps::Update> update_of(const ferry_update& update);

}  // namespace ferry::interop
