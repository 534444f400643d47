#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry bench ARGS...`: becomes the program ferry-bench, which is beside this one, with ARGS.
void add_bench(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
