#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ferry/graph/partition.h"
#include "ferry/runtime/executor.h"

namespace ferry::runtime {

struct TaskOptions {
  std::uint64_t seed = 1;  // of the variables' first values
  // Values to begin with instead, by the variables' names; others are made from the seed.
  std::map<std::string, tensor::Tensor> initial = {};
  BlockMaker registered = nullptr;  // memory that peers may touch; none: ordinary
  // Nodes of the first loop whose output 0 is handed out each step.
  std::vector<std::string> fetches = {};
  Nanos step_patience = std::chrono::seconds(120);  // after which a step has failed
};

// What one process of a partitioned program does: its variables, and an executor for each of its
// loops. Must not outlive the partition and the rendezvous.
class TaskRunner {
 public:
  // Opens the task's ends of all crossings; the other tasks do the same, by the deadline.
  static Result<std::unique_ptr<TaskRunner>> open(const graph::Partition& partition,
                                                  const std::string& task, Rendezvous& rendezvous,
                                                  TaskOptions options, Deadline deadline);

  // What the step is fed with; valid until the next call. Feeder and watcher are called on the
  // thread in run().
  using Feeder = std::function<Result<std::vector<Feed>>(std::uint64_t step)>;
  // After each step: what was fetched. A failure ends the run.
  using Watcher =
      std::function<Status(std::uint64_t step, std::span<const tensor::Tensor> fetched)>;
  // Runs steps first .. last of all loops; feeder and watcher are the first loop's. The
  // first failure of any loop is returned, once all loops have ended.
  Status run(std::uint64_t first, std::uint64_t last, const Feeder& feeder, const Watcher& watcher);

  Variables& variables() { return variables_; }
  ExecutorStats stats() const;  // of all loops together

 private:
  TaskRunner(const graph::Partition& partition, std::string task, Rendezvous& rendezvous,
             TaskOptions options);
  Status make_variables(Deadline deadline);
  Status make_executors();
  Result<std::vector<graph::Output>> fetches_in(const graph::Part& part) const;
  Status run_loop(Executor& executor, std::uint64_t first, std::uint64_t last, const Feeder& feeder,
                  const Watcher& watcher) const;

  const graph::Partition& partition_;
  const std::string task_;
  Rendezvous& rendezvous_;
  const TaskOptions options_;
  std::vector<const graph::Part*> parts_;  // of this task, one for each loop
  Variables variables_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace ferry::runtime
