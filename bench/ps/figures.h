#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/driver/outcome.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

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
  bool is_compared() const;
  std::string verdict() const;  // the outcome's name, or that there is none
};

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

// What one run of `bench ps` measured.
struct PsResults {
  std::vector<PsFigure> figures;
  std::vector<PsSpeed> speeds;
  std::vector<PsTraining> trainings;
};

}  // namespace ferry::bench
