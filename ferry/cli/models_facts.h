#pragma once

#include <string>
#include <vector>

#include "ferry/base/error.h"
#include "ferry/cli/bench_outcome.h"

namespace ferry::cli {

// A figure of the runtime itself, beside the models.
struct RuntimeFact {
  std::string id;
  std::string sentence;
  std::string unit;
  Estimate measured;
  double bound = 0;
  Outcome outcome = Outcome::kMet;
};

// What an operator costs the executor, with and without others that poll; how long planning takes.
Result<std::vector<RuntimeFact>> runtime_facts(int repeat);

}  // namespace ferry::cli
