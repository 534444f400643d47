#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ferry/train/job.h"

namespace ferry::cli {

// The options of a job as words, for `ferry train`, `ferry run` and `ferry explain`.
struct JobFlags {
  train::JobOptions job;
  std::string transports = "ferry";
  std::string optimizer = "momentum";
  std::string compute = "real";
};
// --spin, for jobs and for `ferry ps`.
void add_spin_option(CLI::App& command, Nanos& spin);
void add_job_options(CLI::App& command, JobFlags& flags);
// How many tasks there are, where no cluster file says it.
void add_task_counts(CLI::App& command, JobFlags& flags);
// {"us": 50.0, "source": "default"}; null for none.
nlohmann::json spin_json(const std::optional<mail::SpinInUse>& spin);
// "1 worker", "2 workers".
std::string counted(std::uint64_t count, std::string_view thing);
// "2 workers, 1 server".
std::string tasks_text(const train::JobOptions& job);

// One job for each transport that was named. kInvalidArgument for words that mean nothing.
Result<std::vector<train::JobOptions>> jobs_of(const JobFlags& flags);

}  // namespace ferry::cli
