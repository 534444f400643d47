#include "ferry/cli/train_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/job_options.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

std::string round_ms(double seconds) { return fmt::format("{:.2f}", seconds * 1e3); }

// The columns of one job; those of text only where there is some.
std::vector<std::string> trained_row(const Trained& job, bool with_text) {
  const auto figures = job.sent();
  const auto& sent = figures.sent;
  const auto accuracy = job.accuracy();
  const auto step = estimate(job.step_seconds());
  std::vector<std::string> row = {path_text(job.options),
                                  fmt::format("{:.1f}", job.seconds()),
                                  round_ms(step.median),
                                  step.count > 1 ? range_text(step, round_ms) : "-",
                                  fmt::format("{:.0f}", job.samples_per_second()),
                                  accuracy ? fmt::format("{:.1f} %", *accuracy * 100) : "-"};
  if (with_text)
    for (const auto& perplexity : {job.perplexity(), job.test_perplexity()})
      row.push_back(perplexity ? fmt::format("{:.2f}", *perplexity) : "-");
  row.insert(row.end(),
             {size_text(sent.bytes / job.report.steps), fmt::format("{}", sent.tensors),
              fmt::format("{}", sent.in_place), fmt::format("{}", sent.copies),
              share_text(figures.registered_share()), share_text(figures.registering_share()),
              fmt::format("{}", job.reorders() / job.report.steps)});
  return row;
}

// The first test that went so well; null: none did.
const train::TestPoint* reached(const Trained& job, double goal) {
  for (const auto& test : job.report.tests)
    if (test.tested.accuracy && *test.tested.accuracy * 100 >= goal) return &test;
  return nullptr;
}

std::vector<std::string> registration_lines(const std::vector<Trained>& jobs) {
  std::vector<SentFigures> all;
  all.reserve(jobs.size());
  for (const auto& job : jobs) all.push_back(job.sent());
  return registration_notes(all);
}

std::vector<std::string> bound_lines(const std::vector<Trained>& jobs) {
  std::vector<std::string> lines;
  for (const auto& job : jobs)
    if (job.bound)
      lines.push_back(fmt::format("{}: {}", path_text(job.options), job.bound->sentence()));
  return lines;
}

// Of the page: what the terminal has in its table, and the lines below it.
std::vector<std::string> summary_lines(const std::vector<Trained>& jobs) {
  std::vector<std::string> lines;
  for (const auto& job : jobs) {
    const auto step = estimate(job.step_seconds());
    const auto figures = job.sent();
    lines.push_back(fmt::format(
        "{}: {} ms a step, median of {} ({}); registered {}, registering {}",
        path_text(job.options), round_ms(step.median), counted(job.rounds.size(), "round"),
        range_text(step, round_ms), share_text(figures.registered_share()),
        share_text(figures.registering_share())));
  }
  for (const auto& more : {comparison_lines(jobs), bound_lines(jobs), registration_lines(jobs)})
    lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

nlohmann::json optional_json(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json tests_json(const Trained& job) {
  auto tests = nlohmann::json::array();
  for (const auto& test : job.report.tests)
    tests.push_back({{"step", test.step},
                     {"seconds", test.seconds},
                     {"loss", test.tested.loss},
                     {"accuracy", optional_json(test.tested.accuracy)}});
  return tests;
}

nlohmann::json rounds_json(const Trained& job) {
  auto rounds = nlohmann::json::array();
  for (const auto& round : job.rounds)
    rounds.push_back(
        {{"turn", round.turn}, {"seconds", round.seconds}, {"step_seconds", round.step_seconds}});
  return rounds;
}

nlohmann::json median_json(const Estimate& found) {
  return {{"median", found.median}, {"low", found.low}, {"high", found.high}};
}

nlohmann::json bound_json(const std::optional<StepBound>& bound) {
  if (!bound) return {};
  return {{"step_seconds", bound->step},         {"computation_seconds", bound->computation},
          {"path", name_of(bound->path)},        {"bytes", bound->bytes},
          {"carrying_seconds", bound->carrying}, {"sentence", bound->sentence()}};
}

nlohmann::json trained_json(const Trained& job) {
  const auto figures = job.sent();
  return {{"model", job.options.model},
          {"transport", train::name_of(job.options.transport)},
          {"provider", job.options.provider},
          {"workers", job.options.workers},
          {"ps", job.options.servers},
          {"batch", job.options.batch},
          {"first_step", job.report.first_step},
          {"steps", job.report.steps},
          {"seconds", job.seconds()},
          {"step_seconds", median_json(estimate(job.step_seconds()))},
          {"rounds", rounds_json(job)},
          {"bound", bound_json(job.bound)},
          {"samples_per_second", job.samples_per_second()},
          {"reorders", job.reorders()},
          {"spin", spin_json(job.report.spin)},
          {"emulated", job.report.emulated},
          {"made_up_data", job.report.feeds == models::Feeds::kSynthetic},
          {"made_up", job.report.made_up},
          {"loss", optional_json(job.report.last.front().loss)},
          {"test_loss", job.tested ? nlohmann::json(job.tested->loss) : nlohmann::json()},
          {"test_accuracy", optional_json(job.accuracy())},
          {"tests", tests_json(job)},
          {"perplexity", optional_json(job.perplexity())},
          {"test_perplexity", optional_json(job.test_perplexity())},
          {"sent", sent_json(figures.sent)},
          {"registration", registration_json(figures)}};
}

// How many times as fast the first job is as the other, round by round.
Estimate times_as_fast(const Trained& first, const Trained& other) {
  return ratio_of_pairs(other.step_seconds(), first.step_seconds());
}

}  // namespace

void LearningCurve::add(const train::StepReport& step) {
  seconds_ = step.seconds;
  loss_ += step.loss.value_or(0);
  accuracy_ += step.accuracy.value_or(0);
  has_loss_ = step.loss.has_value();
  has_accuracy_ = step.accuracy.has_value();
  if (++steps_ == kSmooth) finish();
}

void LearningCurve::finish() {
  if (has_loss_) losses_.push_back({seconds_, loss_ / steps_});
  if (has_accuracy_) accuracies_.push_back({seconds_, accuracy_ / steps_ * 100});
  steps_ = 0;
  loss_ = 0;
  accuracy_ = 0;
}

std::optional<double> Trained::perplexity() const {
  const auto& loss = report.last.front().loss;
  return text() && loss ? std::optional(std::exp(*loss)) : std::nullopt;
}

std::optional<double> Trained::test_perplexity() const {
  return tested && text() ? std::optional(std::exp(tested->loss)) : std::nullopt;
}

std::vector<double> Trained::step_seconds() const {
  std::vector<double> all;
  for (const auto& round : rounds) all.push_back(round.step_seconds);
  return all;
}

double Trained::seconds() const {
  std::vector<double> all;
  for (const auto& round : rounds) all.push_back(round.seconds);
  return median(std::move(all));
}

double Trained::samples_per_second() const {
  return static_cast<double>(options.workers) * static_cast<double>(options.batch) /
         median(step_seconds());
}

std::uint64_t Trained::reorders() const {
  std::uint64_t all = 0;
  for (const auto& task : report.tasks) all += task.reorders;
  return all;
}

std::string path_text(const train::JobOptions& options) {
  const auto name = train::name_of(options.transport);
  if (options.transport == train::Transport::kGrpc) return fmt::format("{}, tcp", name);
  return fmt::format("{}, {}", name, options.provider);
}

std::vector<std::string> comparison_lines(const std::vector<Trained>& jobs) {
  std::vector<std::string> lines;
  for (std::size_t index = 1; index < jobs.size(); ++index) {
    const auto ratio = times_as_fast(jobs[0], jobs[index]);
    const auto spread =
        ratio.count > 1
            ? fmt::format(", median of {} that took turns ({})",
                          counted(static_cast<std::uint64_t>(ratio.count), "round"),
                          range_text(ratio, [](double v) { return fmt::format("{:.2f}x", v); }))
            : "";
    lines.push_back(fmt::format("{} is {:.2f}x as fast as {}{}", path_text(jobs[0].options),
                                ratio.median, path_text(jobs[index].options), spread));
  }
  return lines;
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
  std::vector<std::string> columns = {"transport", "seconds",   "ms a step",
                                      "rounds",    "samples/s", "test accuracy"};
  if (with_text) columns.insert(columns.end(), {"perplexity", "test perplexity"});
  columns.insert(columns.end(), {"sent each step", "tensors", "in place", "copies", "registered",
                                 "registering", "reorders a step"});
  std::vector<std::vector<std::string>> rows;
  rows.reserve(jobs.size());
  for (const auto& job : jobs) rows.push_back(trained_row(job, with_text));
  fmt::print(out, "\n{}", render_table(columns, rows));
  print_made_up(jobs.front().report.made_up, out);
  for (const auto& job : jobs)
    if (job.report.spin)
      fmt::print(out, "{}: waits spin for {} before they sleep\n", path_text(job.options),
                 job.report.spin->to_text());
  for (const auto& lines : {registration_lines(jobs), bound_lines(jobs), comparison_lines(jobs)})
    for (const auto& line : lines) fmt::print(out, "{}\n", line);
}

void print_made_up(const std::vector<std::string>& sentences, std::FILE* out) {
  for (const auto& sentence : sentences) fmt::print(out, "note: {}\n", sentence);
}

Status write_trained(const std::string& path, const std::vector<Trained>& jobs) {
  auto all = nlohmann::json::array();
  for (const auto& job : jobs) all.push_back(trained_json(job));
  auto ratios = nlohmann::json::array();
  for (std::size_t index = 1; index < jobs.size(); ++index)
    ratios.push_back({{"transport", train::name_of(jobs[0].options.transport)},
                      {"against", train::name_of(jobs[index].options.transport)},
                      {"times_as_fast", median_json(times_as_fast(jobs[0], jobs[index]))}});
  return write_report(
      path,
      nlohmann::json{{"tool", "train"}, {"jobs", all}, {"comparisons", ratios}}.dump(2) + "\n");
}

std::string trained_html(const std::vector<Trained>& jobs) {
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
  for (const auto& line : summary_lines(jobs))
    notes += fmt::format("<p>{}</p>\n", escape_html(line));
  return fmt::format(
      "<!doctype html>\n<meta "
      "charset=\"utf-8\">\n<title>{0}</title>\n<h1>{0}</h1>\n{1}{2}{3}{4}",
      escape_html(title), notes, plot("training loss by time", losses, number),
      plot("training accuracy by time", accuracies, percent),
      plot("test accuracy by time", tests, percent));
}

}  // namespace ferry::cli
