#include "bench/suites/transfer.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/driver/facts.h"
#include "bench/suites/suite.h"
#include "ferry/base/clock.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"

namespace ferry::bench {
namespace {

const BenchDefaults kHost = {"shm,tcp", "memcpy,socket,grpc,ucx", "64,4K,64K,1M,16M,128M,512M,1G",
                             "64,4K,64K,1M,16M,128M"};
// Soft-RoCE takes messages of 8 MiB at most, and so do the programs of perftest on it.
const BenchDefaults kVerbs = {"verbs", "perftest", "2,16,4K,64K,1M,8M", "2,16,64K,1M"};

struct Flags : BenchFlags {
  std::string touch = "page";
  std::string wait;
  std::string group = "host";
  bool no_facts = false;
};

const BenchDefaults& defaults_of(const Flags& flags) {
  return flags.group == "verbs" ? kVerbs : kHost;
}

Result<Selection> selection_of(const Flags& flags) {
  auto selection = FERRY_TRY(
      selection_for(flags, defaults_of(flags), {"memcpy", "socket", "grpc", "ucx", "perftest"}));
  // The targets speak of both ways to wait.
  const auto wait = flags.wait.empty() ? (flags.check ? "both" : "spin") : flags.wait;
  selection.spin = wait != "sleep";
  selection.sleep = wait != "spin";
  return selection;
}

Result<Plan> transfer_plan(const Flags& flags) {
  auto plan = FERRY_TRY(plan_for(flags, defaults_of(flags)));
  plan.variants = select_variants(all_variants(), FERRY_TRY(selection_of(flags)));
  if (plan.variants.empty()) return fail(Code::kInvalidArgument, "nothing is selected to measure");
  plan.work.read = flags.touch == "all" ? Workload::Read::kLines : Workload::Read::kPages;
  plan.targets = &transfer_targets();
  return plan;
}

// What is left for the facts of the time for all of it. They take seconds, sizes take what they
// get.
constexpr double kFactsShare = 0.2;

FactPlan fact_plan_of(const Flags& flags, const Plan& plan, double seconds) {
  FactPlan facts;
  if (!flags.no_facts)
    facts.facts = select_facts(all_facts(), providers_of(flags, defaults_of(flags)));
  facts.program = plan.self;
  facts.repeat = plan.repeat;
  facts.seconds = seconds;
  return facts;
}

Measurements measure_all(const Flags& flags, Plan plan, const ProgressLine& progress) {
  auto facts = fact_plan_of(flags, plan, plan.seconds * kFactsShare);
  if (!facts.facts.empty()) plan.seconds *= 1 - kFactsShare;
  auto measured = measure(plan, [&](const Progress& now) { progress(now); });
  if (measured.interrupted) return measured;
  const auto begun = now_ns();
  measured.facts =
      measure_facts(facts, [&](const Fact& fact, int repetition) { progress(fact, repetition); });
  measured.seconds += static_cast<double>(now_ns() - begun) / 1e9;
  measured.interrupted = cli::InterruptGuard::interrupted();
  for (auto& line : facts_left_out(measured.facts)) measured.notes.push_back(std::move(line));
  return measured;
}

Result<int> run_transfer(const Flags& flags) {
  FERRY_TRY(cli::guard_launch());
  const auto plan = FERRY_TRY(transfer_plan(flags));
  FERRY_TRY(need_a_provider(providers_of(flags, defaults_of(flags))));
  const auto setup = print_setup(flags);
  print_round(flags, plan);
  cli::InterruptGuard guard;
  const ProgressLine progress;
  const auto measured = measure_all(flags, plan, progress);
  progress.clear();
  return report("ferry bench transfer", flags, setup, {measured});
}

void add_options(CLI::App& command, Flags& flags) {
  add_bench_options(command, flags, kHost);
  command.add_option("--group", flags.group, "host: shm and tcp; verbs: RDMA beside perftest")
      ->check(CLI::IsMember({"host", "verbs"}))
      ->capture_default_str();
  command.add_option("--touch", flags.touch, "What the receiver reads: one byte a page, or all")
      ->check(CLI::IsMember({"page", "all"}))
      ->capture_default_str();
  command.add_option("--wait", flags.wait, "How both sides wait (both with --check, else spin)")
      ->check(CLI::IsMember({"spin", "sleep", "both"}));
  command.add_flag("--no-facts", flags.no_facts,
                   "Leave out connect time, look-ups, system calls and eight processes");
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
    exit_code = status ? *status : cli::kCannotRun;
  });
}

}  // namespace ferry::bench
