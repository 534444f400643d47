#pragma once

#include <string>

#include "ferry/train/job.h"

namespace ferry::train {

// Whether process `to` can use memory of process `from` in place.
bool maps_memory(const JobOptions& options, const std::string& from, const std::string& to);

}  // namespace ferry::train
