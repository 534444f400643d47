#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ferry/ops/kernel.h"

namespace ferry::ops {

// The library's own kernels, with the names of their operators; each of the parts is in a file of
// its own.
std::vector<std::pair<std::string, KernelFactory>> standard_kernels();

}  // namespace ferry::ops
