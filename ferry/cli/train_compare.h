#pragma once

#include <cstdio>
#include <vector>

#include "ferry/cli/train_report.h"

namespace ferry::cli {

// Runs the jobs, one for each transport, to their end: all of them in each round, in turns. Where
// there are several, each round also has one worker that sends nothing, to tell what computation
// alone takes, and each job is said what bounds its steps. Only the first round is tested.
// kCancelled if interrupted.
Result<std::vector<Trained>> train_in_turns(const std::vector<train::JobOptions>& jobs, int rounds,
                                            bool test, std::FILE* out);

}  // namespace ferry::cli
