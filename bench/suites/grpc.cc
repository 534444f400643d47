#include "bench/suites/grpc.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/suites/message.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/grpc_plugin.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"

namespace ferry::bench {
namespace {

const BenchDefaults kGrpcDefaults = {
    "shm,tcp", "grpc", "2,64,1K,4K,16K,64K,256K,1M,4M,8M,16M", "64,4K,64K,1M,16M", 900, 120};

// What is left for many processes of the time for all of it.
constexpr double kGrpcFactsShare = 0.4;

struct GrpcBenchFlags : MessageFlags {
  bool ablation = false;
};

Result<Plan> grpc_plan(const GrpcBenchFlags& flags, const std::string& plugin) {
  auto plan = FERRY_TRY(plan_for(flags, kGrpcDefaults));
  const auto selection = FERRY_TRY(selection_for(flags, kGrpcDefaults, {"grpc"}));
  plan.variants =
      select_variants(flags.ablation ? grpc_ablation(plugin) : grpc_variants(plugin), selection);
  plan.work.read = read_of(flags);
  plan.targets = &grpc_targets();
  return plan;
}

std::vector<Fact> facts_for_grpc(const GrpcBenchFlags& flags, const std::string& plugin) {
  if (flags.ablation) return {};
  auto who = providers_of(flags, kGrpcDefaults);
  who.emplace_back("grpc");
  return select_facts(grpc_facts(plugin, flags.quick), who);
}

Result<int> run_bench_grpc(const GrpcBenchFlags& flags) {
  FERRY_TRY(cli::guard_launch());
  const auto plugin = FERRY_TRY(cli::grpc_plugin_path());
  auto plan = FERRY_TRY(grpc_plan(flags, plugin));
  auto facts = facts_for_grpc(flags, plugin);
  const auto statistics = FERRY_TRY(GrpcStatistics::open());
  for (auto& variant : plan.variants) variant.settings.push_back(statistics->setting());
  for (auto& fact : facts) fact.settings.push_back(statistics->setting());
  const auto setup = print_setup(flags);
  print_round(flags, plan);
  cli::InterruptGuard guard;
  auto measured =
      measure_messages(flags, plan, std::move(facts), kGrpcFactsShare, grpc_fact_ratios());
  measured.messages_by_size = statistics->sizes();
  return report("ferry bench grpc", flags, setup, {measured});
}

}  // namespace

void add_bench_grpc(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "grpc", "gRPC programs on TCP, on local sockets, and over Tensorferry");
  auto flags = std::make_shared<GrpcBenchFlags>();
  add_message_options(*command, *flags, kGrpcDefaults);
  command->add_flag("--ablation", flags->ablation,
                    "What pipelining, coalescing and zero copy give, one after the other");
  command->callback([flags, &exit_code] {
    const auto status = run_bench_grpc(*flags);
    if (!status) fmt::print(stderr, "ferry bench grpc: {}\n", status.error().message());
    exit_code = status ? *status : cli::kCannotRun;
  });
}

}  // namespace ferry::bench
