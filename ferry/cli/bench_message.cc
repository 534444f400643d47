#include "ferry/cli/bench_message.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "ferry/cli/bench_run.h"
#include "ferry/cli/bench_setup.h"
#include "ferry/cli/command_line.h"

namespace ferry::cli {
namespace {

const BenchDefaults kMessageDefaults = {"shm,tcp", "memcpy,socket,grpc", "2,64,1K,4K,64K,1M,8M",
                                        "2,64,4K,1M,8M"};

struct MessageFlags : BenchFlags {
  std::string touch = "page";
};

Result<Plan> message_plan(const MessageFlags& flags) {
  auto plan = FERRY_TRY(plan_for(flags, kMessageDefaults));
  Selection selection;
  selection.providers =
      FERRY_TRY(names_in(flags.providers.empty() ? kMessageDefaults.providers : flags.providers,
                         {"shm", "tcp", "verbs"}, "--providers"));
  selection.against =
      FERRY_TRY(names_in(flags.against.empty() ? kMessageDefaults.against : flags.against,
                         {"memcpy", "socket", "grpc"}, "--against"));
  // The raw socket is best at some sizes when it sleeps.
  selection.sleep = true;
  selection.quick = flags.quick;
  plan.variants = select_variants(message_variants(), selection);
  plan.work.read = flags.touch == "all" ? Workload::Read::kLines : Workload::Read::kPages;
  plan.targets = &message_targets();
  return plan;
}

Result<int> run_message(const MessageFlags& flags) {
  const auto plan = FERRY_TRY(message_plan(flags));
  FERRY_TRY(need_a_provider(providers_of(flags, kMessageDefaults)));
  auto* out = output_of(flags);
  for (const auto& line : setup_lines(read_setup())) fmt::print(out, "{}\n", line);
  fmt::print(out, "round    {}; {} interleaved repetitions\n", plan.work.text(), plan.repeat);
  std::fflush(out);
  InterruptGuard guard;
  const ProgressLine progress;
  const auto measured = measure(plan, [&](const Progress& now) { progress(now); });
  progress.clear();
  return report("ferry bench message", flags, {measured});
}

}  // namespace

void add_bench_message(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "message", "Messages of any size between two processes and among many, beside gRPC");
  auto flags = std::make_shared<MessageFlags>();
  add_bench_options(*command, *flags, kMessageDefaults);
  command->add_option("--touch", flags->touch, "What the receiver reads: one byte a page, or all")
      ->check(CLI::IsMember({"page", "all"}))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    const auto status = run_message(*flags);
    if (!status) fmt::print(stderr, "ferry bench message: {}\n", status.error().message());
    exit_code = status ? *status : kCannotRun;
  });
}

}  // namespace ferry::cli
