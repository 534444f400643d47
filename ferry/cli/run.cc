#include "ferry/cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/sent_report.h"
#include "ferry/cli/common/text.h"
#include "ferry/cli/doctor_peer.h"
#include "ferry/cli/train.h"
#include "ferry/cli/train_progress.h"
#include "ferry/cli/train_report.h"

namespace ferry::cli {
namespace {

struct RunFlags : TrainFlags {
  std::string cluster;
  std::string task;
  std::string secret_file;
  double patience = 60;
  std::vector<std::string> namespaces;  // HOST=NAME
};

std::string task_json(const train::TaskReport& report, double seconds, const train::JobOptions& job,
                      const train::JobPlan& plan) {
  return nlohmann::json{{"tool", "run"},
                        {"task", report.task},
                        {"emulated", job.emulate},
                        {"made_up_data", plan.model.feeds == models::Feeds::kSynthetic},
                        {"made_up", train::made_up(plan)},
                        {"steps", report.executor.steps},
                        {"seconds", seconds},
                        {"spin", spin_json(report.spin)},
                        {"sent", sent_json(report.crossings)},
                        {"registration", registration_json(sent_by({report}))}}
             .dump(2) +
         "\n";
}

Result<int> run_task_of(const RunFlags& flags) {
  const auto jobs = FERRY_TRY(jobs_of(flags));
  if (jobs.size() != 1)
    return fail(Code::kInvalidArgument, "one task runs over one transport, not {}", jobs.size());
  if (flags.rounds > 1)
    return fail(Code::kInvalidArgument, "one task is started for one round; --rounds is without");
  const auto& job = jobs.front();
  fmt::print("{} at {}: {}, {}, {}; waits up to {:.0f} s for the others\n", flags.task,
             job.places.count(flags.task) > 0 ? job.places.at(flags.task) : "?", job.model,
             tasks_text(job), counted(job.steps, "step"), flags.patience);
  const auto plan = FERRY_TRY(train::plan_job(job));
  print_made_up(train::made_up(plan), stdout);
  std::fflush(stdout);
  TrainProgress progress(job, stdout);
  double seconds = 0;
  const auto report =
      FERRY_TRY(train::run_one_task(job, flags.task, [&](const train::StepReport& step) {
        progress(step);
        seconds = step.seconds;
      }));
  fmt::print("{} is done: {} steps, {} tensors sent, {}, {} in place, {} copies\n", report.task,
             report.executor.steps, report.crossings.tensors, size_text(report.crossings.bytes),
             report.crossings.in_place, report.crossings.copies);
  if (report.spin) fmt::print("waits spin for {} before they sleep\n", report.spin->to_text());
  if (!flags.json.empty())
    FERRY_TRY(write_report(flags.json, task_json(report, seconds, job, plan)));
  return 0;
}

Result<std::map<std::string, std::string>> namespaces_of(const RunFlags& flags) {
  std::map<std::string, std::string> names;
  for (const auto& text : flags.namespaces) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size() ||
        text.find('/') != std::string::npos)
      return fail(Code::kInvalidArgument, "--namespace {}: it is HOST=NAME", text);
    names[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (!names.empty() && !flags.task.empty())
    return fail(Code::kInvalidArgument, "--namespace is for all tasks together, without --task");
  return names;
}

Result<int> run_cluster(RunFlags flags) {
  const auto cluster = FERRY_TRY(train::read_cluster(flags.cluster));
  auto& job = flags.job;
  job.places = cluster.places;
  job.workers = cluster.workers;
  job.servers = cluster.servers;
  job.namespaces = FERRY_TRY(namespaces_of(flags));
  job.patience = Nanos(static_cast<std::int64_t>(flags.patience * 1e9));
  if (flags.task.empty()) return run_train(flags);
  const auto peer = FERRY_TRY(peer_options(flags.secret_file, flags.patience));
  job.secret = peer.secret;
  job.secret_file = peer.secret_file;
  return run_task_of(flags);
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<RunFlags>();
  auto* command = app.add_subcommand("run", "Train with the tasks of a cluster file");
  command
      ->add_option("--cluster", flags->cluster,
                   "File with {\"ps\": [\"host:port\"], \"worker\": [\"host:port\", ...]}")
      ->required();
  command->add_option("--task", flags->task,
                      "Be this one task, such as /job:worker/task:0; else all run on this machine");
  command->add_option("--secret-file", flags->secret_file,
                      "With --task: the cluster's secret (or FERRY_SECRET in the environment)");
  command->add_option("--patience", flags->patience, "Seconds to wait for the other tasks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--namespace", flags->namespaces,
                      "HOST=NAME, again for each host; without --task: the tasks at this host of "
                      "the file run in this network namespace, as root");
  add_job_options(*command, *flags);
  add_training_options(*command, *flags);
  command->footer(
      "All tasks are started with the same options, in any order, on machines that reach each "
      "other;\n"
      "tasks at one address use each other's memory in place.");
  command->callback([flags, &exit_code] {
    const auto status = run_cluster(*flags);
    if (!status) fmt::print(stderr, "ferry run: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
