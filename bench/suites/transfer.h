#pragma once

#include <CLI/App.hpp>

namespace ferry::bench {

// Adds `transfer` to `ferry bench`. When the user asks for it, it runs during parsing and leaves
// the exit status in `exit_code`: 0, 1 when a target was missed (--check) or wrong bytes were seen,
// 2 when it could not run or nothing of ours could be measured, 130 or 143 when interrupted.
// `exit_code` must outlive the parse.
void add_bench_transfer(CLI::App& bench_command, int& exit_code);

}  // namespace ferry::bench
