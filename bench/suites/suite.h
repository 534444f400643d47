#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "bench/driver/measure.h"
#include "bench/driver/targets.h"
#include "ferry/cli/common/setup.h"

// What the commands of `ferry bench` that measure rounds have in common.
namespace ferry::bench {

struct BenchFlags {
  std::string sizes;
  std::string providers;
  std::string against;
  bool quick = false;
  int repeat = 0;
  double seconds = 0;
  bool check = false;
  std::string json;
  std::string html;
};
// `seconds` and `quick_seconds` are what is taken for --seconds unless it is given.
struct BenchDefaults {
  std::string providers;
  std::string against;
  std::string sizes;
  std::string quick_sizes;
  double seconds = 900;
  double quick_seconds = 50;
};
void add_bench_options(CLI::App& command, BenchFlags& flags, const BenchDefaults& defaults);

// What the user, or else the defaults, name. kInvalidArgument for a limit or peer that is not in
// `against`, or a provider that there is not.
Result<Selection> selection_for(const BenchFlags& flags, const BenchDefaults& defaults,
                                const std::vector<std::string>& against);
std::vector<std::string> providers_of(const BenchFlags& flags, const BenchDefaults& defaults);
// Sizes, repetitions, time and programs; the caller adds variants, workload and targets.
Result<Plan> plan_for(const BenchFlags& flags, const BenchDefaults& defaults);

// Rewrites one line on a terminal; elsewhere says each size once.
class ProgressLine {
 public:
  void operator()(const Progress& now) const;
  void operator()(const Fact& fact, int repetition) const;
  void clear() const;
};

// Measures the facts beside the rounds, unless those were interrupted, and what they make together.
void add_facts(Measurements& measured, const FactPlan& facts, const std::vector<FactRatio>& ratios,
               const std::function<void(const Fact&, int)>& on_progress);

// kUnavailable unless one of the providers works here.
Status need_a_provider(const std::vector<std::string>& providers);

// Prints tables and, with --check, verdicts; writes --json and --html. The exit status.
Result<int> report(const std::string& tool, const BenchFlags& flags, const cli::Setup& setup,
                   const std::vector<Measurements>& workloads);
// Before a run: what it runs on, for the report too; what a round is.
cli::Setup print_setup(const BenchFlags& flags);
void print_round(const BenchFlags& flags, const Plan& plan);

}  // namespace ferry::bench
