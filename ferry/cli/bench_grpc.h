#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "ferry/cli/bench_facts.h"
#include "ferry/cli/bench_targets.h"
#include "ferry/cli/bench_variants.h"

namespace ferry::cli {

// `ferry bench grpc`: the same gRPC programs on TCP, on local sockets, and with the plug-in.
void add_bench_grpc(CLI::App& bench_command, int& exit_code);

// The programs with the plug-in at this path; empty: without them.
std::vector<Variant> grpc_variants(const std::string& plugin);
std::vector<Fact> grpc_facts(const std::string& plugin, bool quick);
const std::vector<FactRatio>& grpc_fact_ratios();
const std::vector<Target>& grpc_targets();

}  // namespace ferry::cli
