#include "bench/suites/tensor.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "bench/suites/suite.h"
#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/launch_guard.h"

namespace ferry::bench {
namespace {

using Read = Workload::Read;

const BenchDefaults kTensorDefaults = {"shm,tcp", "memcpy,socket,grpc",
                                       "64,1K,4K,64K,1M,16M,128M,1G", "64,4K,1M,16M"};

struct TensorFlags : BenchFlags {
  std::string work = "all";
};

// As the paper has it first: written by the sender, read by the receiver, within the clock.
std::vector<Workload> workloads_of(const TensorFlags& flags) {
  const Workload produced{Read::kBytes, true};
  const Workload read{Read::kBytes, false};
  const Workload given{Read::kPages, false};
  if (flags.work == "produced") return {produced};
  if (flags.work == "read") return {read};
  if (flags.work == "given") return {given};
  return {produced, read, given};
}

Result<Plan> tensor_plan(const TensorFlags& flags) {
  auto plan = FERRY_TRY(plan_for(flags, kTensorDefaults));
  auto selection = FERRY_TRY(selection_for(flags, kTensorDefaults, {"memcpy", "socket", "grpc"}));
  // The raw socket is best at some sizes when it sleeps.
  selection.sleep = true;
  plan.variants = select_variants(tensor_variants(), selection);
  return plan;
}

Result<int> run_tensor(const TensorFlags& flags) {
  FERRY_TRY(cli::guard_launch());
  auto plan = FERRY_TRY(tensor_plan(flags));
  FERRY_TRY(need_a_provider(providers_of(flags, kTensorDefaults)));
  const auto setup = print_setup(flags);
  cli::InterruptGuard guard;
  const ProgressLine progress;
  std::vector<Measurements> all;
  const auto workloads = workloads_of(flags);
  plan.seconds /= static_cast<double>(workloads.size());
  for (const auto& work : workloads) {
    plan.work = work;
    print_round(flags, plan);
    plan.targets = &tensor_targets(work);
    all.push_back(measure(plan, [&](const Progress& now) { progress(now); }));
    progress.clear();
    if (all.back().interrupted) break;
  }
  return report("ferry bench tensor", flags, setup, all);
}

}  // namespace

void add_bench_tensor(CLI::App& bench_command, int& exit_code) {
  auto* command = bench_command.add_subcommand(
      "tensor", "One tensor by every protocol, produced, sent and read, beside gRPC");
  auto flags = std::make_shared<TensorFlags>();
  add_bench_options(*command, *flags, kTensorDefaults);
  command
      ->add_option("--work", flags->work,
                   "produced: written and read within the clock; read: only read; given: one byte "
                   "a page")
      ->check(CLI::IsMember({"all", "produced", "read", "given"}))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    const auto status = run_tensor(*flags);
    if (!status) fmt::print(stderr, "ferry bench tensor: {}\n", status.error().message());
    exit_code = status ? *status : cli::kCannotRun;
  });
}

}  // namespace ferry::bench
