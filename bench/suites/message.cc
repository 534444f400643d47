#include "bench/suites/message.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/suites/suite.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

const BenchDefaults kMessageDefaults = {
    "shm,tcp", "memcpy,socket,grpc", "2,64,1K,4K,16K,32K,64K,1M,8M", "2,64,4K,32K,1M,8M", 900, 90};

Result<Plan> message_plan(const MessageFlags& flags) {
  auto plan = FERRY_TRY(plan_for(flags, kMessageDefaults));
  auto selection = FERRY_TRY(selection_for(flags, kMessageDefaults, {"memcpy", "socket", "grpc"}));
  // The raw socket is best at some sizes when it sleeps.
  selection.sleep = true;
  plan.variants = select_variants(message_variants(), selection);
  plan.work.read = read_of(flags);
  plan.targets = &message_targets();
  return plan;
}

// What is left for the facts of the time for all of it: they run for seconds each.
constexpr double kMessageFactsShare = 0.6;

std::vector<Fact> facts_for(const MessageFlags& flags) {
  auto who = providers_of(flags, kMessageDefaults);
  for (auto& name :
       cli::split_list(flags.against.empty() ? kMessageDefaults.against : flags.against))
    who.push_back(std::move(name));
  return select_facts(message_facts(flags.quick), who);
}

Result<int> run_message(const MessageFlags& flags) {
  FERRY_TRY(cli::guard_launch());
  const auto plan = FERRY_TRY(message_plan(flags));
  FERRY_TRY(need_a_provider(providers_of(flags, kMessageDefaults)));
  const auto setup = print_setup(flags);
  print_round(flags, plan);
  cli::InterruptGuard guard;
  const auto measured =
      measure_messages(flags, plan, facts_for(flags), kMessageFactsShare, message_fact_ratios());
  return report("ferry bench message", flags, setup, {measured});
}

}  // namespace

void add_message_options(CLI::App& command, MessageFlags& flags, const BenchDefaults& defaults) {
  add_bench_options(command, flags, defaults);
  command.add_option("--touch", flags.touch, "What the receiver reads: one byte a page, or all")
      ->check(CLI::IsMember({"page", "all"}))
      ->capture_default_str();
  command.add_flag("--no-facts", flags.no_facts,
                   "Leave out one server with many clients, and four processes fully connected");
}

Workload::Read read_of(const MessageFlags& flags) {
  return flags.touch == "all" ? Workload::Read::kLines : Workload::Read::kPages;
}

Measurements measure_messages(const MessageFlags& flags, Plan plan, std::vector<Fact> facts,
                              double share, const std::vector<FactRatio>& ratios) {
  FactPlan fact_plan;
  if (!flags.no_facts) fact_plan.facts = std::move(facts);
  fact_plan.program = plan.self;
  fact_plan.folders = plan.folders;
  fact_plan.repeat = plan.repeat;
  fact_plan.seconds = plan.seconds * share;
  if (!fact_plan.facts.empty()) plan.seconds *= 1 - share;
  const ProgressLine progress;
  auto measured = measure(plan, [&](const Progress& now) { progress(now); });
  add_facts(measured, fact_plan, ratios,
            [&](const Fact& fact, int repetition) { progress(fact, repetition); });
  progress.clear();
  return measured;
}

void add_bench_message(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "message", "Messages of any size between two processes and among many, beside gRPC");
  auto flags = std::make_shared<MessageFlags>();
  add_message_options(*command, *flags, kMessageDefaults);
  command->callback([flags, &exit_code] {
    const auto status = run_message(*flags);
    if (!status) fmt::print(stderr, "ferry bench message: {}\n", status.error().message());
    exit_code = status ? *status : cli::kCannotRun;
  });
}

}  // namespace ferry::bench
