#pragma once

#include <string>

#include "bench/ps/figures.h"
#include "ferry/cli/common/setup.h"

namespace ferry::bench {

// Everything that was measured, each turn of the figures included, as one JSON object with a final
// newline.
std::string ps_json(const PsResults& results, const cli::Setup& setup);

}  // namespace ferry::bench
