#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "ferry/base/error.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// Adds `bench ps`: the parameter server beside its limits and ZeroMQ.
void add_bench_ps(CLI::App& bench_command, int& exit_code);
// Adds the hidden `ps-server` and `ps-worker`, which `bench ps` starts.
void add_bench_ps_server(CLI::App& app, int& exit_code);
void add_bench_ps_worker(CLI::App& app, int& exit_code);

// One figure: ours and what it is compared with, once in each turn.
struct PsFigure {
  std::string id;
  std::string sentence;
  std::string unit;      // of ours and other
  double bound = 0;      // of the ratio
  bool at_most = false;  // else at least
  std::vector<double> ours;
  std::vector<double> other;  // all 1: there is nothing to compare with
  std::string skipped;        // why it was not measured

  cli::Estimate ratio() const;
  Outcome outcome() const;
};

// Of all that takes part, in the environment of what is started too.
inline constexpr const char* kPsSecret = "of a benchmark on the loopback";

// What pushes reach with so many workers.
struct PsSpeed {
  std::string way;  // consistency and number of servers
  std::uint64_t block = 0;
  std::uint32_t workers = 0;
  double gb_per_second = 0;  // of gradients, over all workers; the median of the turns
};

// Training through servers, beside one process that trains alone; medians of the turns.
struct PsTraining {
  std::string way;            // path and number of servers
  std::uint32_t workers = 0;  // 0: the one that is alone
  double images_per_second = 0;
  double step_seconds = 0;
  double communicating = 0;  // share of the step in which nothing is computed
  double of_alone = 0;       // images per second over those of the one alone, in the same turn
  double loss = 0;           // in the last step, and so is the accuracy
  double accuracy = 0;
};

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
