#include "bench/driver/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bench/driver/variants.h"
#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;
using Unit = Fact::Unit;

constexpr double kMs = 1e6;

std::vector<std::string> args_of(const std::string& name, const std::string& provider,
                                 const std::string& bytes = "") {
  std::vector<std::string> args = {"fact", name, "--provider", provider};
  if (!bytes.empty()) args.insert(args.end(), {"--bytes", bytes});
  return args;
}

std::vector<Fact> make_facts() {
  return {
      {"connect-shm", "shm, connect to another process: at most 10 ms", "shm",
       args_of("connect", "shm"), Unit::kTime, 10 * kMs},
      {"connect-tcp", "tcp, connect to another process: at most 10 ms", "tcp",
       args_of("connect", "tcp"), Unit::kTime, 10 * kMs},
      {"regions-shm", "shm, grant, publish and look up 1,000 regions: at most 50 ms", "shm",
       args_of("regions", "shm"), Unit::kTime, 50 * kMs},
      {"regions-tcp", "tcp, grant, publish and look up 1,000 regions: at most 50 ms", "tcp",
       args_of("regions", "tcp"), Unit::kTime, 50 * kMs},
      {"syscalls-shm", "shm, system calls per transfer: none", "shm", args_of("syscalls", "shm"),
       Unit::kCount, 0},
      {"crowd-64k", "shm, 8 processes on 2 cores, 64 KiB: at most 1.25x the time of two", "shm",
       args_of("crowd", "shm", "65536"), Unit::kRatio, 1 / 0.8},
      {"crowd-1m", "shm, 8 processes on 2 cores, 1 MiB: at most 1.25x the time of two", "shm",
       args_of("crowd", "shm", "1048576"), Unit::kRatio, 1 / 0.8},
  };
}

Result<double> measure_once(const Fact& fact, const FactPlan& plan) {
  const auto program = fact.program.empty()
                           ? plan.program
                           : FERRY_TRY(find_program(fact.program, fact.provider, plan.folders));
  auto child = FERRY_TRY(
      cli::ChildProgram::start(program, fact.args, cli::Complaints::kToOurs, fact.settings));
  // It measures as soon as it is started and reads no command.
  const auto line = FERRY_TRY(child.read_line(Deadline::after(120s)));
  child.stop();
  return parse_fact(line);
}

}  // namespace

const std::vector<Fact>& all_facts() {
  static const std::vector<Fact> kAll = make_facts();
  return kAll;
}

std::vector<Fact> select_facts(const std::vector<Fact>& all,
                               const std::vector<std::string>& providers) {
  std::vector<Fact> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const Fact& fact) {
    return std::find(providers.begin(), providers.end(), fact.provider) != providers.end();
  });
  return chosen;
}

std::vector<FactResult> measure_facts(const FactPlan& plan,
                                      const std::function<void(const Fact&, int)>& on_progress) {
  std::vector<FactResult> results;
  for (const auto& fact : plan.facts) results.push_back({fact, {}, ""});
  const auto limit = Deadline::after(Nanos(static_cast<std::int64_t>(plan.seconds * 1e9)));
  for (int repetition = 0; repetition < plan.repeat; ++repetition) {
    if (repetition > 0 && limit.expired()) break;
    for (auto& result : results) {
      if (cli::InterruptGuard::interrupted()) return results;
      if (!result.left_out.empty()) continue;
      on_progress(result.fact, repetition);
      const auto value = measure_once(result.fact, plan);
      if (value) {
        result.values.push_back(*value);
      } else {
        result.left_out = value.error().message();
      }
    }
  }
  return results;
}

std::vector<FactResult> fact_ratios(const std::vector<FactRatio>& ratios,
                                    const std::vector<FactResult>& results) {
  const auto values_of = [&](const std::string& id) {
    for (const auto& result : results)
      if (result.fact.id == id) return result.values;
    return std::vector<double>();
  };
  std::vector<FactResult> found;
  for (const auto& ratio : ratios) {
    const auto ours = values_of(ratio.ours);
    const auto theirs = values_of(ratio.theirs);
    FactResult result{
        {.id = ratio.id, .sentence = ratio.sentence, .unit = Unit::kRatio, .bound = ratio.bound},
        {},
        ""};
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
      result.values.push_back(theirs[i] / ours[i]);
    if (!result.values.empty()) found.push_back(std::move(result));
  }
  return found;
}

Result<double> parse_fact(const std::string& line) {
  constexpr std::string_view kError = "error ";
  constexpr std::string_view kValue = "ok value=";
  if (line.rfind(kError, 0) == 0) return fail(Code::kAborted, "{}", line.substr(kError.size()));
  if (line.rfind(kValue, 0) == 0) {
    double value = 0;
    const auto* end = line.data() + line.size();
    const auto [at, error] = std::from_chars(line.data() + kValue.size(), end, value);
    if (error == std::errc() && at == end) return value;
  }
  return fail(Code::kInternal, "'{}' is not a figure", line);
}

Outcome judge_fact(const FactResult& result) {
  return outcome_of(cli::estimate(result.values), result.fact.bound);
}

std::string fact_text(Unit unit, double value) {
  if (unit == Unit::kTime) return cli::time_text(value);
  if (unit == Unit::kCount) return fmt::format("{:.3g}", value);
  if (unit == Unit::kCallsPerSecond) return fmt::format("{:.0f}/s", value);
  if (unit == Unit::kGbPerSecond) return fmt::format("{:.2f} GB/s", value);
  return fmt::format("{:.{}f}", value, value < 0.1 && value > 0 ? 3 : 2);
}

std::string fact_table(const std::vector<FactResult>& results) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& result : results) {
    if (result.values.empty()) continue;
    const auto found = cli::estimate(result.values);
    const auto text = [&](double value) { return fact_text(result.fact.unit, value); };
    rows.push_back({result.fact.sentence, text(found.median), cli::range_text(found, text),
                    result.fact.bounded() ? text(result.fact.bound) : "-",
                    result.fact.bounded() ? outcome_name(judge_fact(result)) : "-"});
  }
  if (rows.empty()) return "";
  return cli::render_table({"beside the rounds", "median", "95 %", "at most", "verdict"}, rows);
}

std::vector<std::string> facts_missed(const std::vector<FactResult>& results) {
  std::vector<std::string> lines;
  for (const auto& result : results) {
    if (result.values.empty() || judge_fact(result) != Outcome::kMissed) continue;
    const auto found = cli::estimate(result.values);
    lines.push_back(fmt::format("{}: {}; it is {} ({}..{})", result.fact.id, result.fact.sentence,
                                fact_text(result.fact.unit, found.median),
                                fact_text(result.fact.unit, found.low),
                                fact_text(result.fact.unit, found.high)));
  }
  return lines;
}

std::vector<std::string> facts_left_out(const std::vector<FactResult>& results) {
  std::vector<std::string> lines;
  for (const auto& result : results) {
    if (!result.left_out.empty())
      lines.push_back(fmt::format("{} is left out: {}", result.fact.id, result.left_out));
  }
  return lines;
}

}  // namespace ferry::bench
