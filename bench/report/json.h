#pragma once

#include <string>
#include <vector>

#include "bench/driver/measure.h"
#include "bench/driver/targets.h"
#include "ferry/cli/common/setup.h"

namespace ferry::bench {

// Everything that was measured, each repetition included, as one JSON object with a final newline.
// Several workloads are an array in it.
std::string json_report(const std::string& tool, const cli::Setup& setup,
                        const std::vector<Judged>& workloads);

}  // namespace ferry::bench
