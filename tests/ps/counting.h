#pragma once

#include <atomic>

#include "tests/ps/kit.h"

namespace ferry::ps::testing {

// What worker processes and the test that kills them both see: a file that all map.
struct Counts {
  static constexpr std::uint32_t kRanks = 4;
  std::atomic<std::uint64_t> stop;
  std::atomic<std::uint64_t> begun[kRanks];         // steps whose end was asked for
  std::atomic<std::uint64_t> acknowledged[kRanks];  // steps that flush() called applied

  static Counts* map(const std::string& path);
};

// A worker that adds one to all of its own row in each step, until it is told to stop. Of each row
// all elements are equal at any time, whoever dies.
class CountingWorker {
 public:
  CountingWorker(const std::string& scheduler, const std::string& provider, std::uint32_t rank,
                 Counts& counts);
  void step();
  // How often each rank was counted; throws if a step counts for a part of its row only.
  std::vector<std::uint64_t> rows();
  void leave();

 private:
  static Deadline in_time() { return Deadline::after(60s); }
  Counts& counts_;
  Worker worker_;
  Parameter w_;
  std::vector<float> ones_;
};

// Arguments: scheduler, provider, rank, path of the counts.
int count_for_ever(const std::vector<std::string>& words);

}  // namespace ferry::ps::testing
