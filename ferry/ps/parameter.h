#pragma once

#include <cstdint>

namespace ferry::ps {

// A tensor of the job, as this worker knows it.
using Parameter = std::uint32_t;

}  // namespace ferry::ps
