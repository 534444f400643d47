#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ferry/mail/tuning_cache.h"

namespace ferry::cli {

// The values of one path, then each with its curve as a table and a small plot.
std::string to_text(const mail::TuningEntry& entry);
nlohmann::json to_json(const std::vector<mail::TuningEntry>& entries);

// Where the times lie between the least and the greatest, on a logarithmic scale: a line of
// `width` characters with each mark at its place; marks at one place become '='.
std::string plot_line(const std::vector<double>& times, const std::string& marks, double least,
                      double greatest, std::size_t width);

}  // namespace ferry::cli
