#pragma once

#include <CLI/App.hpp>

namespace ferry::bench {

// `ferry bench tensor`: one tensor by every protocol of the transfer room, beside the limits and
// gRPC; figure 7 of the paper on static placement.
void add_bench_tensor(CLI::App& bench_command, int& exit_code);

// The pair of processes behind each variant of ours.
void add_bench_tensor_round(CLI::App& app, int& exit_code);

}  // namespace ferry::bench
