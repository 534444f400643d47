#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ferry/fabric/device.h"
#include "ferry/ps/options.h"
#include "ferry/ps/wire/scheduler_link_internal.h"
#include "ferry/ps/worker_options.h"
#include "ferry/ps/worker_stats.h"

namespace ferry::ps {

// What all parts of a worker use: who it is, the job's options, its devices. The worker fills it in
// while it joins; later only the counters change, each by the one part that counts it.
struct WorkerContext {
  bool is_sync() const { return job.consistency == Consistency::kSync; }

  WorkerOptions options;
  JobOptions job;
  std::uint32_t rank = 0;
  std::optional<fabric::Device> control;
  std::unique_ptr<SchedulerLink> scheduler;
  std::optional<fabric::Device> data;
  WorkerStats stats;
};

}  // namespace ferry::ps
