#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/driver/facts.h"
#include "bench/driver/protocol.h"
#include "bench/driver/variants.h"

namespace ferry::bench {

struct Target;

// What one variant did at one size. Entry i of `ns` and `cpu_ns` is repetition i, per round.
struct Cell {
  std::vector<double> ns;
  std::vector<double> cpu_ns;
  std::uint64_t rounds = 0;
  // Why it was not measured, or not to the end; empty where it was.
  std::string left_out;
};

struct Plan {
  std::vector<Variant> variants;
  std::vector<std::uint64_t> sizes;
  Workload work;
  int repeat = 9;
  double seconds = 600;
  // Folders with the round programs, first match wins.
  std::vector<std::string> folders;
  // The running program, for the variants that are ours.
  std::string self;
  // What the figures are judged and compared by; outlives plan and measurements.
  const std::vector<Target>* targets = nullptr;
};

struct Measurements {
  std::vector<Variant> variants;
  std::vector<std::uint64_t> sizes;
  Workload work;
  const std::vector<Target>* targets = nullptr;
  std::map<std::pair<std::string, std::uint64_t>, Cell> cells;
  // Figures beside the rounds.
  std::vector<FactResult> facts;
  // How many messages were sent, by their least size, a power of two; where that is counted.
  std::map<std::uint64_t, std::uint64_t> messages_by_size;
  // What the reader must know: programs that are missing, failures, sizes left out.
  std::vector<std::string> notes;
  std::uint64_t checked_bytes = 0;
  std::uint64_t bad = 0;
  bool interrupted = false;
  double seconds = 0;

  // Nothing where it was not measured.
  const Cell* cell(const std::string& variant, std::uint64_t size) const;
};

// Told what is being measured: size, repetition, variant.
struct Progress {
  std::size_t size_index = 0;
  std::size_t sizes = 0;
  std::uint64_t size = 0;
  int repetition = 0;
  int repetitions = 0;
  std::string variant;
};
using OnProgress = std::function<void(const Progress&)>;

// Starts every program, measures size by size with the variants taking turns in each repetition,
// and stops the programs. Ends early, with what there is, when interrupted.
Measurements measure(const Plan& plan, const OnProgress& on_progress);

// Bytes the system could still give to a process; 0 when it does not say.
std::uint64_t available_memory();

}  // namespace ferry::bench
