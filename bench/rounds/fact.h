#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <string>

#include "bench/limits/team.h"

namespace ferry::bench {

using limits::Team;

struct FactSetting {
  std::string name;
  std::string provider = "shm";
  std::uint64_t bytes = 65536;
  int clients = 4;
  double seconds = 2;
};

// Each measures once, with processes of its own, and throws limits::Failure where it cannot.

// Nanoseconds of Device::connect to another process: the median of 20, each from a new device.
double measure_connect(const FactSetting& setting);
// Nanoseconds until a process has looked up 1,000 regions that another grants and publishes.
double measure_regions(const FactSetting& setting);
// System calls that the threads at both ends make per transfer, once everything is set up.
double measure_syscalls(const FactSetting& setting);
// Time per byte of eight processes that write to all others on two cores, over that of two.
double measure_crowd(const FactSetting& setting);

// Calls per second of one server process, over all of its client processes: requests of `bytes`,
// answers of 64 B, for `seconds`.
double measure_server(const FactSetting& setting);
// GB/s of four processes together that send messages of `bytes` to each other, for `seconds`.
double measure_mesh(const FactSetting& setting);
// Adds the hidden `fact NAME`, which prints `ok value=<number>` or `error <sentence>`.
void add_bench_fact(CLI::App& app, int& exit_code);

}  // namespace ferry::bench
