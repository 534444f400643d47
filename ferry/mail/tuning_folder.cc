#include <cstdlib>

#include "ferry/mail/tuning_cache.h"

namespace ferry::mail {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string TuningCache::default_folder() {
  if (auto named = variable("FERRY_TUNING"); !named.empty()) return named == "off" ? "" : named;
  // As the rule for that variable says, what is not absolute is not meant.
  if (auto caches = variable("XDG_CACHE_HOME"); caches.starts_with('/'))
    return caches + "/tensorferry";
  if (auto home = variable("HOME"); home.starts_with('/')) return home + "/.cache/tensorferry";
  return "";
}

}  // namespace ferry::mail
