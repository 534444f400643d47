#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <string>

namespace ferry::cli {

// For an option that takes seconds. Refuses what is not a number too.
inline CLI::Validator seconds_between(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
        return fits ? std::string()
                    : fmt::format("'{}' is not a number of seconds from {} to {}", text, least,
                                  most);
      },
      "");
}

}  // namespace ferry::cli
