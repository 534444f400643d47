#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/driver/facts.h"
#include "bench/driver/targets.h"
#include "bench/driver/variants.h"

namespace ferry::bench {

// `ferry bench grpc`: the same gRPC programs on TCP, on local sockets, and with the plug-in.
void add_bench_grpc(CLI::App& bench_command, int& exit_code);

// The programs with the plug-in at this path; empty: without them.
std::vector<Variant> grpc_variants(const std::string& plugin);
std::vector<Fact> grpc_facts(const std::string& plugin, bool quick);
// What each of the endpoint's ways of being fast gives, one after the other: figure 7 of the paper
// on RDMA in gRPC.
std::vector<Variant> grpc_ablation(const std::string& plugin);
const std::vector<FactRatio>& grpc_fact_ratios();
const std::vector<Target>& grpc_targets();

// What the programs with the plug-in say of their connections when they end, in a file that goes
// with this.
class GrpcStatistics {
 public:
  static Result<std::unique_ptr<GrpcStatistics>> open();
  ~GrpcStatistics();
  GrpcStatistics(const GrpcStatistics&) = delete;
  GrpcStatistics& operator=(const GrpcStatistics&) = delete;

  std::string setting() const;  // NAME=VALUE, for their environment
  // Writes of gRPC's by their least size, a power of two.
  std::map<std::uint64_t, std::uint64_t> sizes() const;

 private:
  explicit GrpcStatistics(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::string file() const { return (folder_ / "statistics").string(); }

  const std::filesystem::path folder_;  // of its own
};

}  // namespace ferry::bench
