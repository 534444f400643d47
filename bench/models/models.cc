#include "bench/models/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/models/facts.h"
#include "bench/models/json.h"
#include "bench/models/measure.h"
#include "bench/models/scaling.h"
#include "bench/models/targets.h"
#include "bench/report/table.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/job_time.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/sent_report.h"
#include "ferry/cli/common/setup.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

constexpr auto kUsualModels = "fcn-5,alexnet,vgg-16,inception-v3,lstm,gru,resnet-50,lenet";
constexpr auto kQuickModels = "fcn-5,lstm";
constexpr auto kUsualPaths = "ferry,ferry/tcp,ferry-copy,ferry-private,grpc,grpc+ferry,alone";

struct ModelsFlags {
  std::string models;
  std::string paths = kUsualPaths;
  std::string compute = "emulate";
  std::int64_t batch = 32;
  std::uint32_t workers = 2;
  std::uint32_t servers = 2;
  int repeat = 0;
  double seconds = 3;
  bool quick = false;
  bool check = false;
  std::string json;
  std::vector<std::uint32_t> scaling;
};

Result<ModelsPlan> models_plan(const ModelsFlags& flags) {
  ModelsPlan plan;
  const auto usual = flags.quick ? kQuickModels : kUsualModels;
  plan.models = flags.models == "all"
                    ? models::model_names()
                    : cli::split_list(flags.models.empty() ? usual : flags.models);
  for (const auto& name : plan.models) FERRY_TRY(models::make_model(name, {.batch = flags.batch}));
  for (const auto& name : cli::split_list(flags.paths))
    plan.paths.push_back(FERRY_TRY(train_path_named(name)));
  if (plan.models.empty() || plan.paths.empty())
    return fail(Code::kInvalidArgument, "there is nothing to measure");
  plan.job.emulate = flags.compute == "emulate";
  plan.job.batch = flags.batch;
  plan.job.workers = flags.workers;
  plan.job.servers = flags.servers;
  plan.job.optimizer = graph::Optimizer::sgd();
  plan.job.rate = 1e-4;  // the data is made up: no model is to go astray on it
  plan.repeat = flags.repeat > 0 ? flags.repeat : (flags.quick ? 3 : 6);
  plan.seconds = flags.quick ? std::min(flags.seconds, 1.0) : flags.seconds;
  if (!flags.scaling.empty())
    std::erase_if(plan.paths, [](const auto& path) { return path.alone; });
  plan.memory_speed = cli::memory_speed();
  return plan;
}

std::string ms_text(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

std::string over(const PathFigures& path, const PathFigures* other) {
  if (other == nullptr || other == &path) return "-";
  return fmt::format("{:.2f}x", cli::ratio_of_pairs(other->step_seconds, path.step_seconds).median);
}

std::vector<std::string> path_row(const ModelFigures& model, const PathFigures& path) {
  if (path.step_seconds.empty())
    return {path.path.name, path.failed.empty() ? "not measured" : path.failed};
  const auto found = cli::estimate(path.step_seconds);
  return {path.path.name,
          ms_text(found.median),
          cli::range_text(found, [](double value) { return fmt::format("{:.2f}", value * 1e3); }),
          fmt::format("{:.2f}", 1 / found.median),
          over(path, model.path("grpc")),
          model.computation > 0 ? fmt::format("{:.2f}", found.median / model.computation) : "-",
          model.memory_bound > 0 ? fmt::format("{:.2f}", found.median / model.memory_bound) : "-",
          cli::size_text(path.one_step.bytes),
          fmt::format("{}", path.one_step.tensors),
          fmt::format("{}", path.one_step.in_place),
          fmt::format("{}", path.one_step.copies),
          cli::share_text(path.sent.registered_share()),
          cli::share_text(path.sent.registering_share())};
}

std::string variables_text(const ModelFigures& model) {
  auto text = fmt::format("{} variables, {:.2f} MiB", model.variables,
                          static_cast<double>(model.variable_bytes) / (1 << 20));
  if (model.facts.paper_mib > 0)
    text +=
        fmt::format(" (the paper: {}, {:.2f})", model.facts.paper_variables, model.facts.paper_mib);
  return text;
}

void print_model(const ModelFigures& model, std::FILE* out) {
  fmt::print(out, "\n{}: {}; {} crossings, planned in {}\n", model.model, variables_text(model),
             model.crossings, ms_text(model.plan_seconds));
  if (model.computation > 0)
    fmt::print(out, "computation emulated: {} a step, asleep{}; gradients written, updates real\n",
               ms_text(model.computation),
               model.estimated
                   ? fmt::format(" (estimated by operations from {}'s)", model.facts.like)
                   : " (as paper 000 measured it on a GPU)");
  else
    fmt::print(out, "computation real, on this machine's cores\n");
  if (model.memory_bound > 0)
    fmt::print(out, "the memory alone needs {} for a step\n", ms_text(model.memory_bound));
  std::vector<std::vector<std::string>> rows;
  for (const auto& path : model.paths) rows.push_back(path_row(model, path));
  fmt::print(out, "{}",
             cli::render_table(
                 {"transport", "a step", "95 % (ms)", "steps/s", "to gRPC", "/ computation",
                  "/ memory", "sent", "tensors", "in place", "copies", "registered", "registering"},
                 rows));
}

void print_registration_notes(const std::vector<ModelFigures>& figures, std::FILE* out) {
  std::vector<cli::SentFigures> all;
  for (const auto& model : figures)
    for (const auto& path : model.paths) all.push_back(path.sent);
  fmt::print(out, "\n");
  for (const auto& note : cli::registration_notes(all)) fmt::print(out, "{}\n", note);
}

void print_model_verdicts(const std::vector<ModelVerdict>& verdicts, std::FILE* out) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(verdicts.size());
  for (const auto& verdict : verdicts)
    rows.push_back({verdict.target->id, verdict.model, verdict.target->against,
                    ratio_text(verdict.ratio), fmt::format("<= {:.2f}", verdict.target->bound),
                    verdict.of_computation.count > 0
                        ? fmt::format("{:.2f}", verdict.of_computation.median)
                        : "-",
                    outcome_name(verdict.outcome)});
  if (!rows.empty())
    fmt::print(out, "\n{}",
               cli::render_table({"target", "model", "against", "time, ratio (95 %)", "bound",
                                  "/ computation", "verdict"},
                                 rows));
}

void print_runtime_facts(const std::vector<RuntimeFact>& facts, std::FILE* out) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(facts.size());
  for (const auto& fact : facts)
    rows.push_back(
        {fact.sentence, fmt::format("{:.3g} {}", fact.measured.median, fact.unit),
         cli::range_text(fact.measured, [](double v) { return fmt::format("{:.3g}", v); }),
         fmt::format("{:.3g}", fact.bound), outcome_name(fact.outcome)});
  fmt::print(
      out, "\n{}",
      cli::render_table({"the runtime itself", "median", "95 %", "at most", "verdict"}, rows));
}

// Names what was missed and what failed; the exit status.
int conclude(const ModelResults& results, bool check) {
  int missed = 0;
  for (const auto& verdict : results.verdicts) {
    if (verdict.outcome != Outcome::kMissed || !check) continue;
    ++missed;
    fmt::print(stderr, "MISSED {} with {}: {}; {} against {}\n", verdict.target->id, verdict.model,
               verdict.target->sentence, ratio_text(verdict.ratio), verdict.target->against);
  }
  for (const auto& fact : results.facts) {
    if (fact.outcome != Outcome::kMissed || !check) continue;
    ++missed;
    fmt::print(stderr, "MISSED {}: {}; {:.3g} {}\n", fact.id, fact.sentence, fact.measured.median,
               fact.unit);
  }
  for (const auto& model : results.figures)
    for (const auto& path : model.paths) {
      if (path.failed.empty() || cli::InterruptGuard::interrupted()) continue;
      ++missed;
      fmt::print(stderr, "FAILED {} over {}: {}\n", model.model, path.path.name, path.failed);
    }
  return missed > 0 ? 1 : 0;
}

void print_progress(const std::string& model, const std::string& path, int repetition) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal && repetition > 0) return;
  fmt::print(stderr, "{}[{} {}{}]{}", terminal ? "\r\033[K" : "", model, path,
             repetition > 0 ? fmt::format(", {}", repetition) : "", terminal ? "" : "\n");
}

void print_scaling(const std::vector<ScalePoint>& points, std::FILE* out) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(points.size());
  for (const auto& point : points)
    rows.push_back({point.model, point.path, fmt::format("{}", point.workers),
                    point.failed.empty() ? ms_text(point.step_seconds.median) : point.failed,
                    ratio_text(point.of_linear),
                    point.bound > 0 ? fmt::format(">= {:.2f}", point.bound) : "-",
                    point.bound > 0 ? outcome_name(point.outcome) : "-"});
  fmt::print(out, "\n{}",
             cli::render_table({"model", "transport", "workers, and servers", "a step",
                                "of linear (95 %)", "bound", "verdict"},
                               rows));
}

Result<int> run_scaling(const ModelsFlags& flags, const ModelsPlan& plan, const cli::Setup& setup,
                        std::FILE* out) {
  fmt::print(out,
             "as many servers as workers, batch {}, computation: {}, memory copies at {:.1f} GB/s; "
             "linear is so many times one worker alone\n",
             flags.batch, flags.compute, plan.memory_speed / 1e9);
  cli::InterruptGuard guard;
  const auto points = measure_scaling(plan, flags.scaling, print_progress);
  print_scaling(points, out);
  if (!flags.json.empty())
    FERRY_TRY(cli::write_report(flags.json, scaling_json(plan, points, setup)));
  int missed = 0;
  for (const auto& point : points)
    if (!point.failed.empty() || (flags.check && point.outcome == Outcome::kMissed)) {
      ++missed;
      fmt::print(stderr, "MISSED scaling of {} over {} to {} workers: {} of linear {}\n",
                 point.model, point.path, point.workers, ratio_text(point.of_linear), point.failed);
    }
  if (cli::InterruptGuard::interrupted()) return cli::InterruptGuard::exit_code();
  return missed > 0 ? 1 : 0;
}

Result<int> run_models(const ModelsFlags& flags) {
  FERRY_TRY(cli::guard_launch());
  if (!flags.json.empty()) FERRY_TRY(cli::check_writable(flags.json));
  const auto plan = FERRY_TRY(models_plan(flags));
  auto* out = flags.json == "-" ? stderr : stdout;
  const auto setup = cli::read_setup();
  for (const auto& line : cli::setup_lines(setup)) fmt::print(out, "{}\n", line);
  if (!flags.scaling.empty()) return run_scaling(flags, plan, setup, out);
  fmt::print(out, "{}, batch {}, memory copies at {:.1f} GB/s\n", cli::tasks_text(plan.job),
             flags.batch, plan.memory_speed / 1e9);
  cli::InterruptGuard guard;
  ModelResults results;
  results.facts = FERRY_TRY(runtime_facts(plan.repeat));
  results.figures = measure_models(plan, print_progress);
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
  for (const auto& model : results.figures) print_model(model, out);
  print_registration_notes(results.figures, out);
  results.verdicts = judge_models(results.figures);
  print_model_verdicts(results.verdicts, out);
  print_runtime_facts(results.facts, out);
  if (!flags.json.empty())
    FERRY_TRY(cli::write_report(flags.json, models_json(plan, results, setup)));
  const auto code = conclude(results, flags.check);
  return cli::InterruptGuard::interrupted() ? cli::InterruptGuard::exit_code() : code;
}

}  // namespace

void add_bench_models(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "models", "Training of the benchmark models, transports side by side");
  auto flags = std::make_shared<ModelsFlags>();
  command->add_option(
      "--models", flags->models,
      fmt::format("Of {}; or all ({})", fmt::join(models::model_names(), ", "), kUsualModels));
  command
      ->add_option("--transports", flags->paths,
                   "To compare; /tcp behind one of ours: over tcp; "
                   "alone: one worker that sends nothing")
      ->capture_default_str();
  command
      ->add_option("--compute", flags->compute,
                   "emulate: wait as long as a GPU took; or real, on this machine's cores")
      ->check(CLI::IsMember({"real", "emulate"}))
      ->capture_default_str();
  command->add_option("--batch", flags->batch, "Samples of each worker in a step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--workers", flags->workers, "Worker processes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--ps", flags->servers, "Parameter server processes")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Repetitions (6; 3 with --quick)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--seconds", flags->seconds, "Of one repetition, about")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--scaling", flags->scaling,
                   "Instead: so many workers and as many servers in turn, such as 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  command->add_flag("--quick", flags->quick, "About two minutes: fewer models and repetitions");
  command->add_flag("--check", flags->check, "Exit with 1 and name every target that was missed");
  command->add_option("--json", flags->json, "Write the figures to this file; - is stdout");
  command->callback([flags, &exit_code] {
    const auto status = run_models(*flags);
    if (!status) fmt::print(stderr, "ferry bench models: {}\n", status.error().message());
    exit_code = status ? *status : cli::kCannotRun;
  });
}

}  // namespace ferry::bench
