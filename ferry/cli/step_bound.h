#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferry/base/error.h"

namespace ferry::cli {

// What the bytes of a step go through, and so cannot be faster than.
enum class StepPath { kMemory, kSocket, kOther };
std::string_view name_of(StepPath path);

// A step, beside what it cannot be faster than on this machine. In seconds.
struct StepBound {
  double step = 0;
  double computation = 0;  // of one worker that sends nothing; 0: not known
  bool emulated = false;   // the computation is
  StepPath path = StepPath::kOther;
  std::uint64_t bytes = 0;  // that the path has to carry in a step
  double carrying = 0;      // the least that the path takes for them; 0: not known

  // Which of the two is the larger part, as a sentence with the figures.
  std::string sentence() const;
};

// Bytes a second from one thread to another through a plain TCP socket on the loopback.
Result<double> socket_speed();

}  // namespace ferry::cli
