#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// One command for the owner of a NIC: device facts, the contract suite on every provider that works
// here, and the benchmark, written to one text file. Minutes. The exit status: 0, 1 if anything
// failed, 130 or 143 after SIGINT or SIGTERM.
Result<int> write_doctor_report(const std::string& path);

}  // namespace ferry::cli
