#include "ferry/cli/bench_grpc.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "ferry/cli/bench_run.h"
#include "ferry/cli/command_line.h"
#include "ferry/cli/grpc.h"

namespace ferry::cli {
namespace {

const BenchDefaults kGrpcDefaults = {
    "shm,tcp", "grpc", "2,64,1K,4K,16K,64K,256K,1M,4M,8M,16M", "64,4K,64K,1M,16M", 900, 120};

// What is left for many processes of the time for all of it.
constexpr double kGrpcFactsShare = 0.4;

struct GrpcBenchFlags : BenchFlags {
  std::string touch = "page";
  bool no_facts = false;
};

Result<Plan> grpc_plan(const GrpcBenchFlags& flags, const std::string& plugin) {
  auto plan = FERRY_TRY(plan_for(flags, kGrpcDefaults));
  const auto selection = FERRY_TRY(selection_for(flags, kGrpcDefaults, {"grpc"}));
  plan.variants = select_variants(grpc_variants(plugin), selection);
  plan.work.read = flags.touch == "all" ? Workload::Read::kLines : Workload::Read::kPages;
  plan.targets = &grpc_targets();
  return plan;
}

FactPlan grpc_fact_plan(const GrpcBenchFlags& flags, const Plan& plan, const std::string& plugin) {
  FactPlan facts;
  auto who = providers_of(flags, kGrpcDefaults);
  who.emplace_back("grpc");
  if (!flags.no_facts) facts.facts = select_facts(grpc_facts(plugin, flags.quick), who);
  facts.program = plan.self;
  facts.folders = plan.folders;
  facts.repeat = plan.repeat;
  facts.seconds = plan.seconds * kGrpcFactsShare;
  return facts;
}

Result<int> run_bench_grpc(const GrpcBenchFlags& flags) {
  const auto plugin = FERRY_TRY(grpc_plugin_path());
  auto plan = FERRY_TRY(grpc_plan(flags, plugin));
  print_setup(flags);
  print_round(flags, plan);
  InterruptGuard guard;
  const ProgressLine progress;
  const auto facts = grpc_fact_plan(flags, plan, plugin);
  if (!facts.facts.empty()) plan.seconds *= 1 - kGrpcFactsShare;
  const auto on_fact = [&](const Fact& fact, int repetition) { progress(fact, repetition); };
  auto measured = measure(plan, [&](const Progress& now) { progress(now); });
  add_facts(measured, facts, grpc_fact_ratios(), on_fact);
  progress.clear();
  return report("ferry bench grpc", flags, {measured});
}

}  // namespace

void add_bench_grpc(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "grpc", "gRPC programs on TCP, on local sockets, and over Tensorferry");
  auto flags = std::make_shared<GrpcBenchFlags>();
  add_bench_options(*command, *flags, kGrpcDefaults);
  command->add_option("--touch", flags->touch, "What the receiver reads: one byte a page, or all")
      ->check(CLI::IsMember({"page", "all"}))
      ->capture_default_str();
  command->add_flag("--no-facts", flags->no_facts,
                    "Leave out one server with many clients, and four processes fully connected");
  command->callback([flags, &exit_code] {
    const auto status = run_bench_grpc(*flags);
    if (!status) fmt::print(stderr, "ferry bench grpc: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
