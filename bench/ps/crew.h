#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/ps/ps.h"
#include "ferry/cli/common/child.h"
#include "ferry/fabric/options.h"
#include "ferry/ps/scheduler.h"
#include "ferry/ps/worker.h"

namespace ferry::bench {

// Of everything in `bench ps`.
fabric::Options bench_device(const std::string& provider);

// A job of the benchmark: the scheduler in this process, servers and other workers in processes of
// their own. Move-only.
class BenchCrew {
 public:
  static Result<BenchCrew> start(const PsPlan& plan, const std::string& provider,
                                 const ps::JobOptions& job);

  // A worker of this process, and one that steps on its own with the same tensor until it is
  // killed.
  Result<ps::Worker> worker() const;
  Result<cli::ChildProgram> start_worker() const;
  void kill_server(std::size_t index) { servers_[index].kill_now(); }

  static Deadline in_time();
  static Result<tensor::Spec> model();  // 4 MiB

 private:
  BenchCrew(std::string self, std::string provider, ps::Scheduler scheduler)
      : self_(std::move(self)), provider_(std::move(provider)), scheduler_(std::move(scheduler)) {}
  std::string self_;
  std::string provider_;
  ps::Scheduler scheduler_;
  std::vector<cli::ChildProgram> servers_;
};

}  // namespace ferry::bench
