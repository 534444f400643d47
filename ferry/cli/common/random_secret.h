#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// For the processes of one job on this machine, which are told it before they meet.
Result<std::string> random_secret();

}  // namespace ferry::cli
