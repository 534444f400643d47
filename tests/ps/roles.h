#pragma once

#include "tests/ps/kit.h"

namespace ferry::ps::testing {

// A job of several worker processes, one of which dies; the others compare what they have with a
// sequential model.
struct Training {
  static constexpr int kBegunAnew = 42;  // exit status: all is well, and a step was pushed again
  std::string scheduler;
  std::string provider;
  std::uint32_t workers = 3;
  std::uint64_t steps = 6;
  std::uint32_t victim = ~0U;  // nobody
  std::uint64_t victim_step = 3;
  // between: two tensors of a step; before, after: its end; stopped: hangs between them
  std::string how = "none";
  std::size_t count = 30011;
  double patience = 1;

  std::vector<std::string> arguments(std::uint32_t rank) const;
  static Training parse(const std::vector<std::string>& words, std::uint32_t& rank);
};

}  // namespace ferry::ps::testing
