#pragma once

#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "ferry/base/error.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// A figure of the runtime itself, beside the models.
struct RuntimeFact {
  std::string id;
  std::string sentence;
  std::string unit;
  cli::Estimate measured;
  double bound = 0;
  Outcome outcome = Outcome::kMet;
};

// What an operator costs the executor, with and without others that poll; how long planning takes.
Result<std::vector<RuntimeFact>> runtime_facts(int repeat);

}  // namespace ferry::bench
