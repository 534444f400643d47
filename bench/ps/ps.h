#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "bench/ps/figures.h"
#include "ferry/base/error.h"

namespace ferry::bench {

// Adds `bench ps`: the parameter server beside its limits and ZeroMQ.
void add_bench_ps(CLI::App& bench_command, int& exit_code);
// Adds the hidden `ps-server` and `ps-worker`, which `bench ps` starts.
void add_bench_ps_server(CLI::App& app, int& exit_code);
void add_bench_ps_worker(CLI::App& app, int& exit_code);

// Of all that takes part, in the environment of what is started too.
inline constexpr const char* kPsSecret = "of a benchmark on the loopback";

struct PsPlan {
  std::string self;      // ferry-bench
  std::string ferry;     // for servers and mounts
  std::string zeromq;    // the peer's; empty: not there
  std::string fuse_ram;  // a plain file of FUSE
  int turns = 6;
  bool quick = false;
};
// Each turn measures everything once. kCancelled if interrupted.
Result<std::vector<PsFigure>> measure_ps(const PsPlan& plan);
// How long a step takes in which a worker or a server is killed.
Result<std::vector<PsFigure>> measure_recovery(const PsPlan& plan);
// Steps by block size, consistency, number of workers and servers.
Result<std::vector<PsSpeed>> measure_speeds(const PsPlan& plan);
// MLP-2048 on Fashion-MNIST. kNotFound without the data, kDataLoss if workers end elsewhere than
// one that trains alone.
Result<std::vector<PsTraining>> measure_training(const PsPlan& plan);
// The mounted model instead, driven by fio.
Result<std::vector<PsFigure>> measure_files(const PsPlan& plan);

}  // namespace ferry::bench
