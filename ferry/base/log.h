#pragma once

#include <spdlog/spdlog.h>

#include <array>
#include <string_view>

namespace ferry {

// The library's logger: standard error, warnings and up unless told otherwise. Whoever first names
// an error logs it; callers pass it on.
spdlog::logger& logger();

// The words set_log_level() takes.
inline constexpr std::array<std::string_view, 6> kLogLevels = {"trace", "debug", "info",
                                                               "warn",  "error", "off"};

// False, and nothing has changed, for any other word.
bool set_log_level(std::string_view level);

}  // namespace ferry
