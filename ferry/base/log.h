#pragma once

#include <spdlog/spdlog.h>

namespace ferry {

// The library's logger: standard error, warnings and up unless told otherwise. Whoever first names
// an error logs it; callers pass it on.
spdlog::logger& logger();

// "trace", "debug", "info", "warn", "error", "off".
void set_log_level(std::string_view level);

}  // namespace ferry
