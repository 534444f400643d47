#pragma once

#include <string>
#include <vector>

#include "ferry/cli/bench_measure.h"
#include "ferry/cli/bench_setup.h"
#include "ferry/cli/bench_targets.h"

namespace ferry::cli {

// One page with plots and tables that needs nothing from anywhere else.
std::string html_report(const std::string& tool, const Setup& setup,
                        const std::vector<Judged>& workloads);

}  // namespace ferry::cli
