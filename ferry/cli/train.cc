#include "ferry/cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/train_compare.h"
#include "ferry/cli/train_report.h"

namespace ferry::cli {
namespace {

// Before time is spent on what is to be saved there.
Status check_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK) == 0) return {};
  return fail(Code::kUnavailable, "cannot save checkpoints to {}: {}", folder,
              error ? error.message() : std::strerror(errno));
}

// A comparison takes turns, so that what else the machine does meets all transports alike. A round
// that left checkpoints would not be the first of its kind.
Result<int> rounds_of(const TrainFlags& flags, std::size_t transports) {
  const bool saves = !flags.job.checkpoints.empty();
  if (flags.rounds > 1 && saves)
    return fail(Code::kInvalidArgument, "--rounds begins anew each time; leave out --checkpoints");
  if (flags.rounds > 0) return flags.rounds;
  constexpr int kUsualRounds = 3;
  return transports > 1 && !saves ? kUsualRounds : 1;
}

Result<std::vector<train::JobOptions>> checked_jobs(const TrainFlags& flags) {
  if (flags.job.checkpoints.empty() && (flags.job.resume || flags.job.save_every > 0))
    return fail(Code::kInvalidArgument, "--resume and --save-every need --checkpoints FOLDER");
  auto jobs = FERRY_TRY(jobs_of(flags));
  constexpr std::uint64_t kTests = 25;  // usually
  for (auto& job : jobs) job.tuning = mail::TuningUse::kMeasure;
  for (auto& job : jobs)
    if (flags.goal > 0 && job.test_every == 0)
      job.test_every = std::max<std::uint64_t>(job.steps / kTests, 1);
  if (!flags.job.checkpoints.empty()) FERRY_TRY(check_folder(flags.job.checkpoints));
  for (const auto& path : {flags.json, flags.html})
    if (!path.empty()) FERRY_TRY(check_writable(path));
  return jobs;
}

}  // namespace

Result<int> run_train(const TrainFlags& flags) {
  const auto jobs = FERRY_TRY(checked_jobs(flags));
  const auto rounds = FERRY_TRY(rounds_of(flags, jobs.size()));
  auto* out = flags.json == "-" ? stderr : stdout;
  FERRY_TRY(guard_launch());
  InterruptGuard guard;
  auto compared = train_in_turns(jobs, rounds, !flags.no_test, out);
  if (!compared && InterruptGuard::interrupted()) {
    fmt::print(stderr, "\nferry train: stopped; the processes it had started are gone\n");
    return InterruptGuard::exit_code();
  }
  if (!compared && !flags.job.checkpoints.empty())
    fmt::print(stderr, "--resume goes on from the newest checkpoint in {}\n",
               flags.job.checkpoints);
  const auto trained = FERRY_TRY(std::move(compared));
  print_trained(trained, out);
  if (flags.goal > 0) print_goal(trained, flags.goal, out);
  if (!flags.json.empty()) FERRY_TRY(write_trained(flags.json, trained));
  if (!flags.html.empty()) FERRY_TRY(write_report(flags.html, trained_html(trained)));
  return 0;
}

void add_training_options(CLI::App& command, TrainFlags& flags) {
  command
      .add_option("--steps", flags.job.steps, "Steps of each worker; with --resume, further ones")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command.add_option("--seed", flags.job.seed, "Of the first values and the order of the data")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--threads", flags.job.threads,
                  "Of the kernels of each process; 0: its share of the cores")
      ->check(CLI::Range(0, 1024));
  command.add_flag(
      "--one-process", [&flags](std::int64_t) { flags.job.processes = false; },
      "Every task as a thread of one process, for comparison");
  command.add_option("--checkpoints", flags.job.checkpoints, "Folder to save variables to");
  command.add_option("--save-every", flags.job.save_every, "Steps from one save to the next")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--resume", flags.job.resume, "Go on from the newest checkpoint");
  command
      .add_option(
          "--rounds", flags.rounds,
          "How often each transport's job is run, in turns, for the median (3 where several "
          "transports are compared, else 1)")
      ->check(CLI::Range(1, 1000));
  command.add_flag("--no-test", flags.no_test, "Leave out the accuracy on the test set");
  command
      .add_option("--test-every", flags.job.test_every,
                  "Steps from one test of the variables to the next, for curves; all are tested "
                  "when training is over")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--goal", flags.goal,
                  "Say when so many per cent of the test set were right for the first time")
      ->check(CLI::Range(0.0, 100.0));
  command.add_option("--html", flags.html, "Write a page with loss and accuracy by time");
  command.add_option("--json", flags.json, "Write the figures to this file; - for stdout");
}

void add_train(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TrainFlags>();
  auto* command = app.add_subcommand("train", "Train a model with several processes");
  add_job_options(*command, *flags);
  add_task_counts(*command, *flags);
  add_training_options(*command, *flags);
  command->callback([flags, &exit_code] {
    const auto status = run_train(*flags);
    if (!status) fmt::print(stderr, "ferry train: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
