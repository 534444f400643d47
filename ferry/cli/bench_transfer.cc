#include "ferry/cli/bench_transfer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "ferry/cli/bench_facts.h"
#include "ferry/cli/bench_measure.h"
#include "ferry/cli/bench_setup.h"
#include "ferry/cli/bench_size.h"
#include "ferry/cli/bench_stats.h"
#include "ferry/cli/bench_targets.h"
#include "ferry/cli/command_line.h"
#include "ferry/cli/provider_check.h"
#include "ferry/cli/report_html.h"
#include "ferry/cli/report_json.h"
#include "ferry/cli/report_table.h"
#include "ferry/cli/seconds.h"

namespace ferry::cli {
namespace {

// What is measured when the user does not say it.
struct Group {
  std::string providers;
  std::string against;
  std::string quick_sizes;
  std::string sizes;
};
const Group kHost = {"shm,tcp", "memcpy,socket,grpc,ucx", "64,4K,64K,1M,16M,128M",
                     "64,4K,64K,1M,16M,128M,512M,1G"};
// Soft-RoCE takes messages of 8 MiB at most, and so do the programs of perftest on it.
const Group kVerbs = {"verbs", "perftest", "2,16,64K,1M", "2,16,4K,64K,1M,8M"};

struct Flags {
  std::string sizes;
  std::string providers;
  std::string against;
  std::string touch = "page";
  std::string wait;
  std::string group = "host";
  bool quick = false;
  int repeat = 0;
  double seconds = 0;
  bool no_facts = false;
  bool check = false;
  std::string json;
  std::string html;
};

const Group& group_of(const Flags& flags) { return flags.group == "verbs" ? kVerbs : kHost; }

std::vector<std::string> providers_of(const Flags& flags) {
  return split_list(flags.providers.empty() ? group_of(flags).providers : flags.providers);
}

Status refuse_unknown(const std::vector<std::string>& names, const std::vector<std::string>& known,
                      const char* option) {
  for (const auto& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(Code::kInvalidArgument, "{} does not know '{}'; it takes {}", option, name,
                  fmt::join(known, ", "));
  }
  return {};
}

Result<Selection> selection_of(const Flags& flags) {
  Selection selection;
  const auto& group = group_of(flags);
  selection.providers = providers_of(flags);
  selection.against = split_list(flags.against.empty() ? group.against : flags.against);
  FERRY_TRY(refuse_unknown(selection.providers, {"shm", "tcp", "verbs"}, "--providers"));
  FERRY_TRY(refuse_unknown(selection.against, {"memcpy", "socket", "grpc", "ucx", "perftest"},
                           "--against"));
  // The targets speak of both ways to wait.
  const auto wait = flags.wait.empty() ? (flags.check ? "both" : "spin") : flags.wait;
  selection.spin = wait != "sleep";
  selection.sleep = wait != "spin";
  selection.quick = flags.quick;
  return selection;
}

// Beside the program as built, or where an installed one keeps its helpers.
std::vector<std::string> program_folders(const std::filesystem::path& self) {
  const auto folder = self.parent_path();
  return {folder.string(), (folder.parent_path() / "libexec" / "tensorferry").string()};
}

Result<Plan> plan_of(const Flags& flags) {
  Plan plan;
  const auto& group = group_of(flags);
  const auto& usual = flags.quick ? group.quick_sizes : group.sizes;
  plan.sizes = FERRY_TRY(parse_sizes(flags.sizes.empty() ? usual : flags.sizes));
  const auto selection = FERRY_TRY(selection_of(flags));
  plan.variants = select_variants(all_variants(), selection);
  if (plan.variants.empty()) return fail(Code::kInvalidArgument, "nothing is selected to measure");
  plan.touch_all = flags.touch == "all";
  plan.repeat = flags.repeat > 0 ? flags.repeat : flags.quick ? 6 : 9;
  plan.seconds = flags.seconds > 0 ? flags.seconds : flags.quick ? 50 : 900;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Code::kInternal, "cannot tell where this program is: {}", error.message());
  plan.self = self.string();
  plan.folders = program_folders(self);
  return plan;
}

// Limits and peers alone are no answer, and that is better said before minutes are spent on them.
Status need_a_provider(const std::vector<std::string>& providers) {
  std::string reasons;
  for (const auto& name : providers) {
    const auto detail = try_provider(name);
    if (detail) return {};
    reasons += fmt::format("\n  {}: {}", name, detail.error().message());
  }
  return fail(Code::kUnavailable, "nothing of ours can be measured on this host:{}", reasons);
}

bool measured_ours(const Measurements& measured) {
  return std::any_of(measured.variants.begin(), measured.variants.end(), [&](const Variant& one) {
    return one.owner == Owner::kOurs &&
           std::any_of(measured.sizes.begin(), measured.sizes.end(),
                       [&](std::uint64_t size) { return measured.cell(one.id, size) != nullptr; });
  });
}

// What is left for the facts of the time for all of it. They take seconds, sizes take what they
// get.
constexpr double kFactsShare = 0.2;

FactPlan fact_plan_of(const Flags& flags, const Plan& plan, double seconds) {
  FactPlan facts;
  if (!flags.no_facts) facts.facts = select_facts(all_facts(), providers_of(flags));
  facts.program = plan.self;
  facts.repeat = plan.repeat;
  facts.seconds = seconds;
  return facts;
}

// Rewrites one line on a terminal; elsewhere says each size once.
class ProgressLine {
 public:
  void operator()(const Progress& now) {
    if (tty_) {
      fmt::print(stderr, "\r\033[K[{}/{}] {}, repetition {}/{}  {}", now.size_index + 1, now.sizes,
                 size_text(now.size), now.repetition + 1, now.repetitions, now.variant);
    } else if (now.variant.empty()) {
      fmt::print(stderr, "[{}/{}] {}\n", now.size_index + 1, now.sizes, size_text(now.size));
    }
    std::fflush(stderr);
  }
  void operator()(const Fact& fact, int repetition) const {
    if (tty_) {
      fmt::print(stderr, "\r\033[Krepetition {}  {}", repetition + 1, fact.sentence);
    } else if (repetition == 0) {
      fmt::print(stderr, "[{}]\n", fact.id);
    }
    std::fflush(stderr);
  }
  void clear() const {
    if (tty_) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool tty_ = isatty(STDERR_FILENO) != 0;
};

void print_report(const Measurements& measured, std::FILE* out) {
  if (measured.interrupted) fmt::print(out, "Interrupted: this is what was measured until then.\n");
  fmt::print(out, "\n{}\n{}", time_table(measured), cpu_table(measured));
  if (const auto ratios = ratio_table(measured); !ratios.empty()) fmt::print(out, "\n{}", ratios);
  if (const auto facts = fact_table(measured.facts); !facts.empty()) fmt::print(out, "\n{}", facts);
  fmt::print(out, "\n{}; {:.0f} s.\n", checked_text(measured), measured.seconds);
  for (const auto& note : measured.notes) fmt::print(out, "note: {}\n", note);
}

// True when a target was missed.
bool print_verdicts(const Measurements& measured, const std::vector<Verdict>& verdicts,
                    std::FILE* out) {
  if (!verdicts.empty()) fmt::print(out, "\n{}", verdict_table(verdicts));
  const bool open = std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return verdict.outcome == Outcome::kOpen;
  });
  if (open)
    fmt::print(out,
               "open: the median is over the bound, but the 95 % interval is not wholly, or there "
               "are fewer than {} repetitions\n",
               kLeastForInterval);
  for (const auto& line : not_judged(all_targets(), verdicts))
    fmt::print(out, "not judged: {}\n", line);
  const auto facts = facts_missed(measured.facts);
  for (const auto& line : facts) fmt::print(out, "MISSED {}\n", line);
  bool missed = !facts.empty();
  for (const auto& verdict : verdicts) {
    if (verdict.outcome != Outcome::kMissed) continue;
    missed = true;
    fmt::print(out, "MISSED {} at {}: {}; {} against {}\n", verdict.target->id,
               size_text(verdict.size), verdict.target->sentence, ratio_text(verdict.ratio),
               verdict.denominator);
  }
  return missed;
}

bool any_without_interval(const Measurements& measured) {
  return std::any_of(measured.cells.begin(), measured.cells.end(), [](const auto& entry) {
    const auto& values = entry.second.ns;
    return !values.empty() && !estimate(values).has_interval();
  });
}

Measurements measure_all(const Flags& flags, Plan plan, ProgressLine& progress) {
  auto facts = fact_plan_of(flags, plan, plan.seconds * kFactsShare);
  if (!facts.facts.empty()) plan.seconds *= 1 - kFactsShare;
  auto measured = measure(plan, [&](const Progress& now) { progress(now); });
  if (measured.interrupted) return measured;
  const auto begun = now_ns();
  measured.facts =
      measure_facts(facts, [&](const Fact& fact, int repetition) { progress(fact, repetition); });
  measured.seconds += static_cast<double>(now_ns() - begun) / 1e9;
  measured.interrupted = InterruptGuard::interrupted();
  for (auto& line : facts_left_out(measured.facts)) measured.notes.push_back(std::move(line));
  if (any_without_interval(measured))
    measured.notes.push_back(
        fmt::format("fewer than {} repetitions give no 95 % interval; they have a median only",
                    kLeastForInterval));
  return measured;
}

Result<int> run_transfer(const Flags& flags) {
  const auto plan = FERRY_TRY(plan_of(flags));
  FERRY_TRY(need_a_provider(providers_of(flags)));
  for (const auto& path : {flags.json, flags.html}) FERRY_TRY(check_writable(path));
  const auto setup = read_setup();
  // With --json - the numbers own stdout.
  auto* out = flags.json == "-" ? stderr : stdout;
  for (const auto& line : setup_lines(setup)) fmt::print(out, "{}\n", line);
  fmt::print(out,
             "round    A gives B a tensor, B reads {}, B answers; {} interleaved repetitions\n",
             plan.touch_all ? "every line" : "one byte per page", plan.repeat);
  std::fflush(out);

  InterruptGuard guard;
  ProgressLine progress;
  const auto measured = measure_all(flags, plan, progress);
  progress.clear();
  print_report(measured, out);
  const auto verdicts = judge(all_targets(), measured);
  if (!flags.json.empty())
    FERRY_TRY(write_report(flags.json, json_report(setup, measured, verdicts)));
  if (!flags.html.empty())
    FERRY_TRY(write_report(flags.html, html_report(setup, measured, verdicts)));
  const bool missed = flags.check && print_verdicts(measured, verdicts, out);
  if (measured.interrupted) return InterruptGuard::exit_code();
  if (missed || measured.bad > 0) return 1;
  if (!measured_ours(measured))
    return fail(Code::kUnavailable, "nothing of ours was measured; the notes above say why");
  return 0;
}

void add_options(CLI::App& command, Flags& flags) {
  command.add_option("--sizes", flags.sizes, "Sizes, for example 64,4K,1M,1G");
  command.add_option("--group", flags.group, "host: shm and tcp; verbs: RDMA beside perftest")
      ->check(CLI::IsMember({"host", "verbs"}))
      ->capture_default_str();
  command.add_option("--providers", flags.providers, "Ours to measure: shm,tcp,verbs");
  command.add_option("--against", flags.against,
                     "Limits and peers: memcpy,socket,grpc,ucx,perftest");
  command.add_option("--touch", flags.touch, "What the receiver reads: one byte a page, or all")
      ->check(CLI::IsMember({"page", "all"}))
      ->capture_default_str();
  command.add_option("--wait", flags.wait, "How both sides wait (both with --check, else spin)")
      ->check(CLI::IsMember({"spin", "sleep", "both"}));
  command.add_flag("--quick", flags.quick, "About a minute: six sizes, few repetitions");
  command.add_option("--repeat", flags.repeat, "Repetitions (9; 6 with --quick)")
      ->check(CLI::Range(1, 10000));
  command.add_option("--seconds", flags.seconds, "Time for all of it (900; 50 with --quick)")
      ->check(seconds_between(0.1, 86400));
  command.add_flag("--no-facts", flags.no_facts,
                   "Leave out connect time, look-ups, system calls and eight processes");
  command.add_flag("--check", flags.check, "Exit with 1 and name every target that was missed");
  command.add_option("--json", flags.json, "Write the figures to this file; - is stdout");
  command.add_option("--html", flags.html, "Write a report with plots to this file");
}

}  // namespace

void add_bench_transfer(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "transfer", "Time of giving a tensor to another process, beside the limits and the peers");
  auto flags = std::make_shared<Flags>();
  add_options(*command, *flags);
  command->callback([flags, &exit_code] {
    const auto status = run_transfer(*flags);
    if (!status) fmt::print(stderr, "ferry bench transfer: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
