#include "ferry/cli/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ferry/cli/bench_child.h"
#include "ferry/cli/bench_size.h"
#include "ferry/cli/command_line.h"
#include "ferry/cli/launch_guard.h"
#include "ferry/cli/report_json.h"
#include "ferry/cli/report_svg.h"
#include "ferry/cli/report_table.h"

namespace ferry::cli {
namespace {

// How a job learnt, by the time since its first step: the mean of all workers over a few steps.
class LearningCurve {
 public:
  void add(const train::StepReport& step) {
    seconds_ = step.seconds;
    loss_ += step.loss.value_or(0);
    accuracy_ += step.accuracy.value_or(0);
    has_loss_ = step.loss.has_value();
    has_accuracy_ = step.accuracy.has_value();
    if (++steps_ == kSmooth) finish();
  }
  // The rest, fewer than are usually taken together.
  void end() {
    if (steps_ > 0) finish();
  }
  // Empty where steps say none.
  const std::vector<Point>& losses() const { return losses_; }
  const std::vector<Point>& accuracies() const { return accuracies_; }

 private:
  static constexpr int kSmooth = 40;
  void finish() {
    if (has_loss_) losses_.push_back({seconds_, loss_ / steps_});
    if (has_accuracy_) accuracies_.push_back({seconds_, accuracy_ / steps_ * 100});
    steps_ = 0;
    loss_ = 0;
    accuracy_ = 0;
  }
  int steps_ = 0;
  double seconds_ = 0;
  double loss_ = 0;
  double accuracy_ = 0;
  bool has_loss_ = false;
  bool has_accuracy_ = false;
  std::vector<Point> losses_;
  std::vector<Point> accuracies_;
};

// A job that has ended well.
struct Trained {
  train::JobOptions options;
  train::JobReport report;
  LearningCurve curve = {};
  std::optional<train::Tested> tested = {};  // if it was asked for

  std::optional<double> accuracy() const { return tested ? tested->accuracy : std::nullopt; }
  bool text() const { return report.feeds == models::Feeds::kText; }
  // Of text one says how many letters the model still hesitates between: in the last step, and in
  // the test.
  std::optional<double> perplexity() const {
    const auto& loss = report.last.front().loss;
    return text() && loss ? std::optional(std::exp(*loss)) : std::nullopt;
  }
  std::optional<double> test_perplexity() const {
    return tested && text() ? std::optional(std::exp(tested->loss)) : std::nullopt;
  }

  double samples_per_second() const {
    return static_cast<double>(report.steps * options.workers) *
           static_cast<double>(options.batch) / report.seconds;
  }
  std::uint64_t reorders() const {
    std::uint64_t all = 0;
    for (const auto& task : report.tasks) all += task.reorders;
    return all;
  }
  runtime::CrossingStats sent() const {
    runtime::CrossingStats all;
    for (const auto& task : report.tasks) all += task.crossings;
    return all;
  }
};

std::string path_text(const train::JobOptions& options) {
  const auto name = train::name_of(options.transport);
  if (options.transport == train::Transport::kGrpc) return fmt::format("{}, tcp", name);
  return fmt::format("{}, {}", name, options.provider);
}

// The columns of one job; those of text only where there is some.
std::vector<std::string> trained_row(const Trained& job, bool with_text) {
  const auto sent = job.sent();
  const auto accuracy = job.accuracy();
  std::vector<std::string> row = {path_text(job.options), fmt::format("{:.1f}", job.report.seconds),
                                  fmt::format("{:.0f}", job.samples_per_second()),
                                  accuracy ? fmt::format("{:.1f} %", *accuracy * 100) : "-"};
  if (with_text)
    for (const auto& perplexity : {job.perplexity(), job.test_perplexity()})
      row.push_back(perplexity ? fmt::format("{:.2f}", *perplexity) : "-");
  row.insert(row.end(), {size_text(sent.bytes / job.report.steps), fmt::format("{}", sent.tensors),
                         fmt::format("{}", sent.in_place), fmt::format("{}", sent.copies),
                         fmt::format("{}", job.reorders() / job.report.steps)});
  return row;
}

// The first test that went so well; null: none did.
const train::TestPoint* reached(const Trained& job, double goal) {
  for (const auto& test : job.report.tests)
    if (test.tested.accuracy && *test.tested.accuracy * 100 >= goal) return &test;
  return nullptr;
}

void print_goal(const std::vector<Trained>& jobs, double goal, std::FILE* out) {
  const auto* first = reached(jobs.front(), goal);
  for (const auto& job : jobs) {
    const auto* when = reached(job, goal);
    if (when == nullptr) {
      fmt::print(out, "{:g} % of the test set: not reached over {}\n", goal,
                 path_text(job.options));
      continue;
    }
    fmt::print(out, "{:g} % of the test set: over {} after {} steps, {:.1f} s{}\n", goal,
               path_text(job.options), when->step, when->seconds,
               first != nullptr && first != when
                   ? fmt::format(", {:.2f}x the time", when->seconds / first->seconds)
                   : "");
  }
}

void print_trained(const std::vector<Trained>& jobs, std::FILE* out) {
  const bool with_text = jobs.front().text();
  std::vector<std::string> columns = {"transport", "seconds", "samples/s", "test accuracy"};
  if (with_text) columns.insert(columns.end(), {"perplexity", "test perplexity"});
  columns.insert(columns.end(),
                 {"sent each step", "tensors", "in place", "copies", "reorders a step"});
  std::vector<std::vector<std::string>> rows;
  rows.reserve(jobs.size());
  for (const auto& job : jobs) rows.push_back(trained_row(job, with_text));
  fmt::print(out, "\n{}", render_table(columns, rows));
  print_made_up(jobs.front().report.made_up, out);
  for (const auto& job : jobs)
    if (job.report.spin)
      fmt::print(out, "{}: waits spin for {} before they sleep\n", path_text(job.options),
                 job.report.spin->to_text());
  for (std::size_t index = 1; index < jobs.size(); ++index)
    fmt::print(out, "{} is {:.2f}x as fast as {}\n", path_text(jobs[0].options),
               jobs[0].samples_per_second() / jobs[index].samples_per_second(),
               path_text(jobs[index].options));
}

nlohmann::json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

Status write_trained(const std::string& path, const std::vector<Trained>& jobs) {
  auto all = nlohmann::json::array();
  for (const auto& job : jobs) {
    const auto sent = job.sent();
    auto tests = nlohmann::json::array();
    for (const auto& test : job.report.tests)
      tests.push_back({{"step", test.step},
                       {"seconds", test.seconds},
                       {"loss", test.tested.loss},
                       {"accuracy", optional_json(test.tested.accuracy)}});
    all.push_back({{"model", job.options.model},
                   {"transport", train::name_of(job.options.transport)},
                   {"provider", job.options.provider},
                   {"workers", job.options.workers},
                   {"ps", job.options.servers},
                   {"batch", job.options.batch},
                   {"first_step", job.report.first_step},
                   {"steps", job.report.steps},
                   {"seconds", job.report.seconds},
                   {"samples_per_second", job.samples_per_second()},
                   {"reorders", job.reorders()},
                   {"spin", spin_json(job.report.spin)},
                   {"emulated", job.report.emulated},
                   {"made_up_data", job.report.feeds == models::Feeds::kSynthetic},
                   {"made_up", job.report.made_up},
                   {"loss", optional_json(job.report.last.front().loss)},
                   {"test_loss", job.tested ? nlohmann::json(job.tested->loss) : nlohmann::json()},
                   {"test_accuracy", optional_json(job.accuracy())},
                   {"tests", tests},
                   {"perplexity", optional_json(job.perplexity())},
                   {"test_perplexity", optional_json(job.test_perplexity())},
                   {"sent",
                    {{"tensors", sent.tensors},
                     {"bytes", sent.bytes},
                     {"in_place", sent.in_place},
                     {"copies", sent.copies},
                     {"endpoint_bytes", sent.endpoint_bytes}}}});
  }
  return write_report(path, nlohmann::json{{"tool", "train"}, {"jobs", all}}.dump(2) + "\n");
}

std::string curves_html(const std::vector<Trained>& jobs) {
  std::vector<Series> losses;
  std::vector<Series> accuracies;
  std::vector<Series> tests;
  for (const auto& job : jobs) {
    losses.push_back({path_text(job.options), 0, job.curve.losses()});
    accuracies.push_back({path_text(job.options), 0, job.curve.accuracies()});
    tests.push_back({path_text(job.options), 0, {}});
    for (const auto& test : job.report.tests)
      if (test.tested.accuracy)
        tests.back().points.push_back({test.seconds, *test.tested.accuracy * 100});
  }
  const auto seconds = [](double value) { return fmt::format("{:.4g} s", value); };
  const auto& options = jobs.front().options;
  const auto title =
      fmt::format("{}, {}, batch {}", options.model, tasks_text(options), options.batch);
  const auto number = [](double value) { return fmt::format("{:.3g}", value); };
  const auto percent = [](double value) { return fmt::format("{:.3g} %", value); };
  const auto plot = [&seconds](const char* name, const std::vector<Series>& series,
                               const auto& text) {
    return series.front().points.empty() ? "" : line_plot(name, series, seconds, text) + "\n";
  };
  std::string notes;
  for (const auto& sentence : jobs.front().report.made_up)
    notes += fmt::format("<p><strong>{}</strong></p>\n", escape_html(sentence));
  return fmt::format(
      "<!doctype html>\n<meta "
      "charset=\"utf-8\">\n<title>{0}</title>\n<h1>{0}</h1>\n{1}{2}{3}{4}",
      escape_html(title), notes, plot("training loss by time", losses, number),
      plot("training accuracy by time", accuracies, percent),
      plot("test accuracy by time", tests, percent));
}

// Before time is spent on what is to be saved there.
Status check_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK) == 0) return {};
  return fail(Code::kUnavailable, "cannot save checkpoints to {}: {}", folder,
              error ? error.message() : std::strerror(errno));
}

Result<Trained> train_once(const train::JobOptions& options, bool test, std::FILE* out) {
  const auto plan = FERRY_TRY(train::plan_job(options));  // what cannot be is said at once
  fmt::print(out, "{}: {}, batch {}, {}, {}\n", options.model, tasks_text(options), options.batch,
             counted(options.steps, "step"), path_text(options));
  print_made_up(train::made_up(plan), out);
  TrainProgress progress(options, out);
  LearningCurve curve;
  auto report = FERRY_TRY(train::run_job(
      options,
      [&](const train::StepReport& step) {
        if (step.worker == 0) progress(step);
        curve.add(step);
      },
      [] { return InterruptGuard::interrupted(); }));
  curve.end();
  Trained trained{options, std::move(report), std::move(curve)};
  if (!trained.report.tests.empty()) {
    trained.tested = trained.report.tests.back().tested;
  } else if (test && train::has_test_set(trained.report.feeds)) {
    trained.tested = FERRY_TRY(train::test_model(options, trained.report.variables));
  }
  return trained;
}

}  // namespace

namespace {

bool reads_text(const train::JobOptions& options) {
  const auto model = models::make_model(options.model, {.batch = options.batch});
  return model && !options.emulate && model->feeds == models::Feeds::kText;
}

}  // namespace

void print_made_up(const std::vector<std::string>& sentences, std::FILE* out) {
  for (const auto& sentence : sentences) fmt::print(out, "note: {}\n", sentence);
}

TrainProgress::TrainProgress(const train::JobOptions& options, std::FILE* out)
    : options_(options),
      out_(out),
      on_terminal_(isatty(fileno(out)) != 0),
      reads_text_(reads_text(options)) {}

void TrainProgress::operator()(const train::StepReport& step) {
  const bool last = ++seen_ == options_.steps;
  const auto every = on_terminal_ ? 0.2 : 5.0;
  if (!last && step.seconds < next_) return;
  next_ = step.seconds + every;
  const auto rate = static_cast<double>(seen_ * options_.workers) *
                    static_cast<double>(options_.batch) / step.seconds;
  const auto accuracy =
      step.accuracy ? fmt::format("  accuracy {:5.1f} %", *step.accuracy * 100) : "";
  const auto loss = step.loss ? fmt::format("  loss {:.4f}", *step.loss) : "";
  const auto perplexity =
      reads_text_ && step.loss ? fmt::format("  perplexity {:.2f}", std::exp(*step.loss)) : "";
  fmt::print(out_, "{}step {:>6}{}{}{}  {:.0f} samples/s{}", on_terminal_ ? "\r\033[K" : "",
             step.step, loss, perplexity, accuracy, rate, on_terminal_ && !last ? "" : "\n");
  std::fflush(out_);
}

Result<int> run_train(const TrainFlags& flags) {
  if (flags.job.checkpoints.empty() && (flags.job.resume || flags.job.save_every > 0))
    return fail(Code::kInvalidArgument, "--resume and --save-every need --checkpoints FOLDER");
  auto jobs = FERRY_TRY(jobs_of(flags));
  constexpr std::uint64_t kTests = 25;  // usually
  for (auto& job : jobs) job.tuning = transfer::TuningUse::kMeasure;
  for (auto& job : jobs)
    if (flags.goal > 0 && job.test_every == 0)
      job.test_every = std::max<std::uint64_t>(job.steps / kTests, 1);
  if (!flags.job.checkpoints.empty()) FERRY_TRY(check_folder(flags.job.checkpoints));
  for (const auto& path : {flags.json, flags.html})
    if (!path.empty()) FERRY_TRY(check_writable(path));
  auto* out = flags.json == "-" ? stderr : stdout;
  FERRY_TRY(guard_launch());
  InterruptGuard guard;
  std::vector<Trained> trained;
  for (const auto& job : jobs) {
    auto one = train_once(job, !flags.no_test, out);
    if (!one && InterruptGuard::interrupted()) {
      fmt::print(stderr, "\nferry train: stopped; the processes it had started are gone\n");
      return InterruptGuard::exit_code();
    }
    if (!one && !job.checkpoints.empty())
      fmt::print(stderr, "--resume goes on from the newest checkpoint in {}\n", job.checkpoints);
    trained.push_back(FERRY_TRY(std::move(one)));
  }
  print_trained(trained, out);
  if (flags.goal > 0) print_goal(trained, flags.goal, out);
  if (!flags.json.empty()) FERRY_TRY(write_trained(flags.json, trained));
  if (!flags.html.empty()) FERRY_TRY(write_report(flags.html, curves_html(trained)));
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
