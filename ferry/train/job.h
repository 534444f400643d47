#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ferry/graph/partition.h"
#include "ferry/graph/replicate.h"
#include "ferry/mail/mailbox.h"
#include "ferry/mail/wait_spin.h"
#include "ferry/models/model.h"
#include "ferry/runtime/executor.h"
#include "ferry/storage/checkpoint.h"
#include "ferry/train/cluster.h"
#include "ferry/train/transport.h"

namespace ferry::train {

// A model trained by several processes.
struct JobOptions {
  std::string model = "lenet";
  std::int64_t batch = 32;  // of each worker
  bool emulate = false;     // computation is replaced by waiting (models/emulate.h)
  std::uint32_t workers = 2;
  std::uint32_t servers = 1;
  Transport transport = Transport::kFerry;
  std::string provider = "auto";  // of the ferry transports: auto, shm, tcp, verbs
  graph::Optimizer optimizer = graph::Optimizer::with_momentum();
  double rate = 0.02;
  bool synchronous = true;  // else each worker's gradients are applied as they come
  std::uint64_t steps = 200;
  std::uint64_t seed = 1;
  // Before a waiter sleeps, with the ferry transports. Other than the default: the user's word, for
  // mail::spin_of_user(). Else what is kept for the paths between the tasks.
  Nanos spin = fabric::Options().spin;
  // kMeasure: run_job() with processes measures the path on this machine first if nothing is kept
  // for it, for about half a second and three at most. A failure costs this time, and nothing else.
  mail::TuningUse tuning = mail::TuningUse::kCached;
  unsigned threads = 0;          // of the kernels of each process; 0: its share of the cores
  bool processes = true;         // else every task is a thread of this process
  std::string checkpoints;       // folder; empty: none
  std::uint64_t save_every = 0;  // steps; 0: only at the end
  bool resume = false;           // from the newest checkpoint
  bool take_variables = true;    // into the report, at the end
  bool by_crossing = false;      // what each crossing did after the first step, into the report
  // Steps from one test of the variables to the next; they are tested when training is over. 0:
  // none.
  std::uint64_t test_every = 0;
  // Where the tasks are; none: on this machine, at ports that are free.
  Places places;
  // The network namespaces, by their names in /run/netns, that tasks at a host of `places` are
  // started in; of hosts that are not named, this process's. Needs root. Of processes only.
  std::map<std::string, std::string> namespaces;
  // That tasks know each other by, or the file that holds it; neither: one is made up.
  std::string secret;
  std::string secret_file;
  Nanos patience = std::chrono::seconds(60);  // with which tasks wait for each other
};

// One step of one worker.
struct StepReport {
  std::uint32_t worker = 0;
  std::uint64_t step = 0;
  std::optional<double> loss;      // none of steps whose computation is emulated
  std::optional<double> accuracy;  // of a model that says it, on data that is not made up
  double seconds = 0;              // since the first step began
};

// What one task did.
struct TaskReport {
  std::string task;
  runtime::CrossingStats crossings;
  runtime::ExecutorStats executor;
  std::uint64_t reorders = 0;  // of weights into oneDNN's layouts; of a process alone
  // Of each provider that carried its tensors (Station::registrations).
  std::vector<fabric::RegistrationStats> registrations = {};
  // What this task's ends of each crossing did after the first step (JobOptions::by_crossing).
  std::map<std::uint32_t, runtime::CrossingStats> steady = {};
  std::optional<mail::SpinInUse> spin = {};  // of the ferry transports
};

// The model on the test set.
struct Tested {
  double loss = 0;
  std::optional<double> accuracy;  // of a model that says it
};
// With the variables as they were after this step.
struct TestPoint {
  std::uint64_t step = 0;
  double seconds = 0;  // since the first step began
  Tested tested = {};
};

struct JobReport {
  double seconds = 0;  // from the first step's begin to the last one's end
  models::Feeds feeds = models::Feeds::kNothing;
  bool emulated = false;             // the computation
  std::vector<std::string> made_up;  // made_up() of its plan
  std::uint64_t first_step = 1;
  std::uint64_t steps = 0;       // that were run
  std::vector<StepReport> last;  // the last step of each worker
  std::vector<TaskReport> tasks;
  storage::NamedTensors variables;  // as they are at the end
  std::vector<TestPoint> tests;
  std::optional<mail::SpinInUse> spin = {};  // the longest of the tasks'; of ferry transports
};

// The program of a job, before it runs: what `ferry explain` shows.
struct JobPlan {
  models::Model model;
  double emulated_seconds = 0;  // of computation in a step; 0: it is real
  bool estimated = false;       // these seconds: nothing is published
  graph::Replicated program;
  graph::Partition partition;
};
Result<JobPlan> plan_job(const JobOptions& options);
// What of the job is not real, as sentences: emulated computation, data that is made up. None where
// all is real.
std::vector<std::string> made_up(const JobPlan& plan);

// Called on the thread in run_job() or run_one_task(), or, with tasks as threads, on a task's; one
// call at a time.
using OnStep = std::function<void(const StepReport&)>;
// Runs the job to its end. A task that dies or fails ends it: kAborted, with the task's name and
// what it said. `stop` is looked at often: true ends the job with kCancelled. It is called on the
// thread in run_job(), or, with tasks as threads, on those of tasks, and then on several at once.
// See "Which thread runs a callback" in docs/design/fabric.md.
Result<JobReport> run_job(const JobOptions& options, const OnStep& on_step,
                          const std::function<bool()>& stop);

// One task of a job, where the others are started by somebody else: needs places and a secret.
Result<TaskReport> run_one_task(const JobOptions& options, const std::string& task,
                                const OnStep& on_step);

// Data that is made up has no test set.
bool has_test_set(models::Feeds feeds);
// With these variables.
Result<Tested> test_model(const JobOptions& options, const storage::NamedTensors& variables);

}  // namespace ferry::train
