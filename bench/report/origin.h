#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ferry/cli/common/setup.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// What every JSON report begins with: the tool, the command line of this process, version and
// commit of the program, and the machine with the date.
nlohmann::json origin_json(const std::string& tool, const cli::Setup& setup);

// "low" and "high" are the ends of a 95 % interval; too few repetitions have "min" and "max".
nlohmann::json estimate_json(const cli::Estimate& estimate);

}  // namespace ferry::bench
