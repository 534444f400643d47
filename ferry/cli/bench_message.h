#pragma once

#include <CLI/App.hpp>

namespace ferry::cli {

// `ferry bench message`: rounds of messages of 2 B to 8 MiB, one server with many clients, and four
// processes fully connected, beside the limits and gRPC; section V-B of the paper on RDMA in gRPC.
void add_bench_message(CLI::App& bench_command, int& exit_code);

// The pair of processes behind each variant of ours.
void add_bench_message_round(CLI::App& app, int& exit_code);

}  // namespace ferry::cli
