#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// Opens a small device with this provider alone. What the provider says of itself (often nothing),
// or why it cannot be used on this host and what to do.
Result<std::string> try_provider(const std::string& name);

}  // namespace ferry::cli
