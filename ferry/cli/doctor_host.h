#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ferry::cli {

// One thing that `ferry doctor` looked at.
struct Finding {
  enum class Level { kGood, kNote, kBad };
  std::string subject;
  Level level = Level::kGood;
  std::string state;   // what is so
  std::string advice;  // what to do about it; empty: nothing
};

// What this host can do: providers, limits, kernel features.
std::vector<Finding> examine_host();
nlohmann::json to_json(const std::vector<Finding>& findings);
// A line or two for each. Advice that several findings share is given once.
std::string to_text(const std::vector<Finding>& findings);

}  // namespace ferry::cli
