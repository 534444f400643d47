#pragma once

#include <cstdint>

namespace ferry::ops {

// How many cores one kernel may use, for the whole process; at the beginning what OpenMP says,
// which is OMP_NUM_THREADS or all cores. What a kernel computes may depend on it in the last bits.
// Threads that run kernels at the same time use so many each. How idle threads wait is settled when
// the program starts: OMP_WAIT_POLICY=passive unless each has a core to itself. Thread-safe.
void set_threads(unsigned count);
unsigned threads();

// How often weights were copied into the layout that a primitive of oneDNN wanted, and back, since
// the process began. Thread-safe.
struct Reorders {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};
Reorders reorders();

}  // namespace ferry::ops
