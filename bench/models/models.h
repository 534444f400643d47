#pragma once

#include <CLI/App.hpp>

namespace ferry::bench {

// Adds `bench models`: training of the benchmark models over several transports side by side.
void add_bench_models(CLI::App& bench_command, int& exit_code);

}  // namespace ferry::bench
