#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// One command for the owner of a NIC: device facts, the contract suite on every provider that works
// here, and the benchmark, written to one text file. The exit status: 1 if anything failed.
Result<int> write_report(const std::string& path);

}  // namespace ferry::cli
