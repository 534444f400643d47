#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ferry/runtime/task.h"
#include "ferry/train/job.h"

namespace ferry::train {

// What a task and whoever started it say to each other.
class TaskLine {
 public:
  virtual ~TaskLine() = default;
  virtual Status say_endpoint(const std::string& endpoint) = 0;
  // Where all tasks are; waits for it.
  virtual Result<std::map<std::string, std::string>> hear_endpoints() = 0;
  virtual Status say_step(const StepReport& step) = 0;
  virtual Status say_end(const TaskReport& report) = 0;
};

// One task of a job, from its station to its last step. `first` is the first step's number, and
// `initial` what variables begin with. Saves where the options say so; what is to be tested, and
// the variables at the end, to `last`.
struct TaskRun {
  const JobOptions& options;
  const JobPlan& plan;
  std::string task;
  std::string secret;
  std::uint64_t first = 1;
  const storage::NamedTensors& initial;
  std::string last;  // folder
};
Status run_task(const TaskRun& run, TaskLine& line);

// All tasks as threads of this process.
Result<JobReport> run_threads(const std::vector<TaskRun>& runs, const OnStep& on_step,
                              const std::function<bool()>& stop);

void note_step(JobReport& report, const StepReport& step, const OnStep& on_step);

}  // namespace ferry::train
