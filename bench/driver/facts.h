#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "ferry/base/error.h"

namespace ferry::bench {

// A figure beside the rounds, with the most it may be. `args` start the program that measures it.
struct Fact {
  enum class Unit { kTime, kCount, kRatio, kCallsPerSecond, kGbPerSecond };
  // Of a figure that only stands beside another.
  static constexpr double kNoBound = std::numeric_limits<double>::infinity();

  std::string id;
  std::string sentence = {};
  // A name of --providers, or of --against for what others do.
  std::string provider = {};
  std::vector<std::string> args = {};
  Unit unit = Unit::kTime;
  double bound = 0;
  // A program's file name; empty is the running program itself.
  std::string program = {};
  // NAME=VALUE, for its environment.
  std::vector<std::string> settings = {};

  bool bounded() const { return bound != kNoBound; }
};

// A figure made of two that are rates: the time that ours takes over the time that theirs takes.
struct FactRatio {
  std::string id;
  std::string sentence;
  std::string ours;
  std::string theirs;
  double bound = Fact::kNoBound;
};

// All those of `ferry bench transfer`. This is the one place where they are written down.
const std::vector<Fact>& all_facts();
// Those of `ferry bench message`; quick ones are fewer and shorter.
std::vector<Fact> message_facts(bool quick);
const std::vector<FactRatio>& message_fact_ratios();
std::vector<Fact> select_facts(const std::vector<Fact>& all,
                               const std::vector<std::string>& providers);

struct FactResult {
  Fact fact;
  // One entry for each repetition.
  std::vector<double> values;
  // Why it was not measured, or not to the end; empty where it was.
  std::string left_out;
};

struct FactPlan {
  std::vector<Fact> facts;
  std::string program;
  // Folders with the programs of others.
  std::vector<std::string> folders = {};
  int repeat = 6;
  double seconds = 10;
};

// Each fact once per repetition, in processes of its own. Ends early when the time is over, but not
// before one repetition, and when interrupted.
std::vector<FactResult> measure_facts(const FactPlan& plan,
                                      const std::function<void(const Fact&, int)>& on_progress);

// Of the pairs of which both were measured, repetition by repetition.
std::vector<FactResult> fact_ratios(const std::vector<FactRatio>& ratios,
                                    const std::vector<FactResult>& results);

// "ok value=1.5" as 1.5; an `error` line becomes an Error with the program's own sentence.
Result<double> parse_fact(const std::string& line);

// As a target is judged: missed only when the whole interval is above the bound.
Outcome judge_fact(const FactResult& result);

// "9.31 ms", "0", "1.08"
std::string fact_text(Fact::Unit unit, double value);
// One row for each fact that was measured; empty where none was.
std::string fact_table(const std::vector<FactResult>& results);
// A line for each fact that was missed, and for each that was not measured.
std::vector<std::string> facts_missed(const std::vector<FactResult>& results);
std::vector<std::string> facts_left_out(const std::vector<FactResult>& results);

}  // namespace ferry::bench
