#pragma once

#include <CLI/App.hpp>

#include "bench/driver/facts.h"
#include "bench/suites/suite.h"

namespace ferry::bench {

// Of commands that measure messages between two processes, and among many.
struct MessageFlags : BenchFlags {
  std::string touch = "page";
  bool no_facts = false;
};
void add_message_options(CLI::App& command, MessageFlags& flags, const BenchDefaults& defaults);
Workload::Read read_of(const MessageFlags& flags);
// The rounds of the plan, and the facts, which get this share of its time.
Measurements measure_messages(const MessageFlags& flags, Plan plan, std::vector<Fact> facts,
                              double share, const std::vector<FactRatio>& ratios);

// `ferry bench message`: rounds of messages of 2 B to 8 MiB, one server with many clients, and four
// processes fully connected, beside the limits and gRPC; section V-B of the paper on RDMA in gRPC.
void add_bench_message(CLI::App& bench_command, int& exit_code);

// The pair of processes behind each variant of ours.
void add_bench_message_round(CLI::App& app, int& exit_code);

}  // namespace ferry::bench
