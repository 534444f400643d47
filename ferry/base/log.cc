#include "ferry/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <string>

namespace ferry {

spdlog::logger& logger() {
  // Never destroyed: threads may log while the process ends.
  static auto* instance = [] {
    auto* made = new std::shared_ptr<spdlog::logger>(std::make_shared<spdlog::logger>(
        "ferry", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    (*made)->set_level(spdlog::level::warn);
    (*made)->set_pattern("ferry %L %H:%M:%S.%e [%P:%t] %v");
    return made;
  }();
  return **instance;
}

bool set_log_level(std::string_view level) {
  // from_str() takes what it does not know for "off".
  if (std::find(kLogLevels.begin(), kLogLevels.end(), level) == kLogLevels.end()) return false;
  logger().set_level(spdlog::level::from_str(std::string(level)));
  return true;
}

}  // namespace ferry
