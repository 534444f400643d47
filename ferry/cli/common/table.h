#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ferry/cli/common/stats.h"

namespace ferry::cli {

// Columns lined up by what a terminal shows; the first to the left, the others to the right. Rows
// may be shorter than the head. An empty row becomes a rule.
std::string render_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

// The interval as "1.02..1.11", or "min 1.02, max 1.11" where there are too few values for one.
std::string range_text(const Estimate& found, const std::function<std::string(double)>& text);

}  // namespace ferry::cli
