#pragma once

#include <map>
#include <optional>
#include <string>

#include "ferry/train/job.h"

namespace ferry::train {

// What tasks say, as lines of text.
struct Said {
  std::string endpoint;
  std::optional<StepReport> step;
  std::optional<TaskReport> end;
  std::string error;
  bool gone = false;  // the error is that another task went away
};
std::string line_of_endpoint(const std::string& endpoint);
std::string line_of_step(const StepReport& step);
std::string line_of_end(const TaskReport& report);
std::string line_of_error(const Error& error);
Result<Said> parse_said(const std::string& line);

std::string line_of_endpoints(const std::map<std::string, std::string>& endpoints);
Result<std::map<std::string, std::string>> parse_endpoints(const std::string& line);

}  // namespace ferry::train
