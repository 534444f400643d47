#include "bench/suites/suite.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/report/html.h"
#include "bench/report/json.h"
#include "bench/report/table.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/programs.h"
#include "ferry/cli/common/provider_check.h"
#include "ferry/cli/common/report_file.h"
#include "ferry/cli/common/seconds.h"
#include "ferry/cli/common/setup.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

// With --json - the numbers own stdout.
std::FILE* output_of(const BenchFlags& flags) { return flags.json == "-" ? stderr : stdout; }

bool on_terminal() { return isatty(STDERR_FILENO) != 0; }

bool measured_ours(const Measurements& measured) {
  return std::any_of(measured.variants.begin(), measured.variants.end(), [&](const Variant& one) {
    return one.owner == Owner::kOurs &&
           std::any_of(measured.sizes.begin(), measured.sizes.end(),
                       [&](std::uint64_t size) { return measured.cell(one.id, size) != nullptr; });
  });
}

void print_tables(const Measurements& measured, std::FILE* out) {
  if (measured.interrupted) fmt::print(out, "Interrupted: this is what was measured until then.\n");
  fmt::print(out, "\n{}\n{}", time_table(measured), cpu_table(measured));
  if (const auto ratios = ratio_table(measured); !ratios.empty()) fmt::print(out, "\n{}", ratios);
  if (const auto facts = fact_table(measured.facts); !facts.empty()) fmt::print(out, "\n{}", facts);
  if (!measured.messages_by_size.empty()) fmt::print(out, "\nMessages by size, from\n");
  for (const auto& [from, messages] : measured.messages_by_size)
    fmt::print(out, "{:>10} {:>12}\n", cli::size_text(from), messages);
  fmt::print(out, "\n{}; {:.0f} s.\n", checked_text(measured), measured.seconds);
  for (const auto& note : measured.notes) fmt::print(out, "note: {}\n", note);
}

// True when a target was missed.
bool print_verdicts(const Judged& judged, std::FILE* out) {
  const auto& [measured, verdicts] = judged;
  if (!verdicts.empty()) fmt::print(out, "\n{}", verdict_table(verdicts));
  const bool open = std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return verdict.outcome == Outcome::kOpen;
  });
  if (open)
    fmt::print(out,
               "open: the median is over the bound, but the 95 % interval is not wholly, or there "
               "are fewer than {} repetitions\n",
               cli::kLeastForInterval);
  for (const auto& line : not_judged(*measured.targets, verdicts))
    fmt::print(out, "not judged: {}\n", line);
  const auto facts = facts_missed(measured.facts);
  for (const auto& line : facts) fmt::print(out, "MISSED {}\n", line);
  bool missed = !facts.empty();
  for (const auto& verdict : verdicts) {
    if (verdict.outcome != Outcome::kMissed) continue;
    missed = true;
    fmt::print(out, "MISSED {} at {}: {}; {} against {}\n", verdict.target->id,
               cli::size_text(verdict.size), verdict.target->sentence, ratio_text(verdict.ratio),
               verdict.denominator);
  }
  return missed;
}

bool any_without_interval(const Measurements& measured) {
  return std::any_of(measured.cells.begin(), measured.cells.end(), [](const auto& entry) {
    const auto& values = entry.second.ns;
    return !values.empty() && !cli::estimate(values).has_interval();
  });
}

}  // namespace

void add_bench_options(CLI::App& command, BenchFlags& flags, const BenchDefaults& defaults) {
  command.add_option("--sizes", flags.sizes, "Sizes, for example 64,4K,1M,1G");
  command.add_option("--providers", flags.providers, "Ours to measure: shm,tcp,verbs");
  command.add_option("--against", flags.against,
                     fmt::format("Limits and peers, for example {}", defaults.against));
  command.add_flag("--quick", flags.quick, "About a minute: fewer sizes and repetitions");
  command.add_option("--repeat", flags.repeat, "Repetitions (9; 6 with --quick)")
      ->check(CLI::Range(1, 10000));
  command
      .add_option("--seconds", flags.seconds,
                  fmt::format("Time for all of it ({:.0f}; {:.0f} with --quick)", defaults.seconds,
                              defaults.quick_seconds))
      ->check(cli::seconds_between(0.1, 86400));
  command.add_flag("--check", flags.check, "Exit with 1 and name every target that was missed");
  command.add_option("--json", flags.json, "Write the figures to this file; - is stdout");
  command.add_option("--html", flags.html, "Write a report with plots to this file");
}

Result<Selection> selection_for(const BenchFlags& flags, const BenchDefaults& defaults,
                                const std::vector<std::string>& against) {
  Selection selection;
  selection.providers =
      FERRY_TRY(cli::names_in(flags.providers.empty() ? defaults.providers : flags.providers,
                              {"shm", "tcp", "verbs"}, "--providers"));
  selection.against = FERRY_TRY(cli::names_in(
      flags.against.empty() ? defaults.against : flags.against, against, "--against"));
  selection.quick = flags.quick;
  return selection;
}

std::vector<std::string> providers_of(const BenchFlags& flags, const BenchDefaults& defaults) {
  return cli::split_list(flags.providers.empty() ? defaults.providers : flags.providers);
}

Result<Plan> plan_for(const BenchFlags& flags, const BenchDefaults& defaults) {
  Plan plan;
  const auto& usual = flags.quick ? defaults.quick_sizes : defaults.sizes;
  plan.sizes = FERRY_TRY(cli::parse_sizes(flags.sizes.empty() ? usual : flags.sizes));
  plan.repeat = flags.repeat > 0 ? flags.repeat : flags.quick ? 6 : 9;
  plan.seconds = flags.seconds > 0 ? flags.seconds
                 : flags.quick     ? defaults.quick_seconds
                                   : defaults.seconds;
  plan.self = FERRY_TRY(cli::running_program());
  plan.folders = cli::program_folders(plan.self);
  for (const auto& path : {flags.json, flags.html}) FERRY_TRY(cli::check_writable(path));
  return plan;
}

void ProgressLine::operator()(const Progress& now) const {
  if (on_terminal()) {
    fmt::print(stderr, "\r\033[K[{}/{}] {}, repetition {}/{}  {}", now.size_index + 1, now.sizes,
               cli::size_text(now.size), now.repetition + 1, now.repetitions, now.variant);
  } else if (now.variant.empty()) {
    fmt::print(stderr, "[{}/{}] {}\n", now.size_index + 1, now.sizes, cli::size_text(now.size));
  }
  std::fflush(stderr);
}

void ProgressLine::operator()(const Fact& fact, int repetition) const {
  if (on_terminal()) {
    fmt::print(stderr, "\r\033[Krepetition {}  {}", repetition + 1, fact.sentence);
  } else if (repetition == 0) {
    fmt::print(stderr, "[{}]\n", fact.id);
  }
  std::fflush(stderr);
}

void ProgressLine::clear() const {
  if (on_terminal()) fmt::print(stderr, "\r\033[K");
}

void add_facts(Measurements& measured, const FactPlan& facts, const std::vector<FactRatio>& ratios,
               const std::function<void(const Fact&, int)>& on_progress) {
  if (measured.interrupted) return;
  const auto begun = now_ns();
  auto& found = measured.facts;
  found = measure_facts(facts, on_progress);
  for (auto& ratio : fact_ratios(ratios, found)) found.push_back(std::move(ratio));
  measured.seconds += static_cast<double>(now_ns() - begun) / 1e9;
  measured.interrupted = cli::InterruptGuard::interrupted();
  for (auto& line : facts_left_out(found)) measured.notes.push_back(std::move(line));
}

// Limits and peers alone are no answer, and that is better said before minutes are spent on them.
Status need_a_provider(const std::vector<std::string>& providers) {
  std::string reasons;
  for (const auto& name : providers) {
    const auto detail = cli::try_provider(name);
    if (detail) return {};
    reasons += fmt::format("\n  {}: {}", name, detail.error().message());
  }
  return fail(Code::kUnavailable, "nothing of ours can be measured on this host:{}", reasons);
}

cli::Setup print_setup(const BenchFlags& flags) {
  auto setup = cli::read_setup();
  for (const auto& line : cli::setup_lines(setup)) fmt::print(output_of(flags), "{}\n", line);
  return setup;
}

void print_round(const BenchFlags& flags, const Plan& plan) {
  auto* out = output_of(flags);
  fmt::print(out, "round    {}; {} interleaved repetitions\n", plan.work.text(), plan.repeat);
  std::fflush(out);
}

Result<int> report(const std::string& tool, const BenchFlags& flags, const cli::Setup& setup,
                   const std::vector<Measurements>& workloads) {
  auto* out = output_of(flags);
  std::vector<Judged> all;
  for (auto measured : workloads) {
    if (any_without_interval(measured))
      measured.notes.push_back(
          fmt::format("fewer than {} repetitions give no 95 % interval; they have a median only",
                      cli::kLeastForInterval));
    print_tables(measured, out);
    all.push_back(judged(std::move(measured)));
  }
  if (!flags.json.empty()) FERRY_TRY(cli::write_report(flags.json, json_report(tool, setup, all)));
  if (!flags.html.empty()) FERRY_TRY(cli::write_report(flags.html, html_report(tool, setup, all)));
  bool missed = false;
  bool ours = false;
  std::uint64_t bad = 0;
  bool interrupted = false;
  for (const auto& one : all) {
    missed = (flags.check && print_verdicts(one, out)) || missed;
    ours = ours || measured_ours(one.measured);
    bad += one.measured.bad;
    interrupted = interrupted || one.measured.interrupted;
  }
  if (interrupted) return cli::InterruptGuard::exit_code();
  if (missed || bad > 0) return 1;
  if (!ours) return fail(Code::kUnavailable, "nothing of ours was measured; the notes say why");
  return 0;
}

}  // namespace ferry::bench
