#pragma once

#include <string>
#include <vector>

#include "ferry/cli/bench_measure.h"
#include "ferry/cli/bench_setup.h"
#include "ferry/cli/bench_targets.h"

namespace ferry::cli {

// Everything that was measured, each repetition included, as one JSON object with a final newline.
// Several workloads are an array in it.
std::string json_report(const std::string& tool, const Setup& setup,
                        const std::vector<Judged>& workloads);

// Whether write_report() will be able to; asked before minutes are spent on what it is to write.
Status check_writable(const std::string& path);
// "-" is stdout.
Status write_report(const std::string& path, const std::string& text);

}  // namespace ferry::cli
