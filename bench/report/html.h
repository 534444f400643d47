#pragma once

#include <string>
#include <vector>

#include "bench/driver/measure.h"
#include "bench/driver/targets.h"
#include "ferry/cli/common/setup.h"

namespace ferry::bench {

// A page with this body, which is taken as it is.
std::string html_page(const std::string& tool, const cli::Setup& setup, const std::string& body);
// Text as it stands, and a heading with what is below it; nothing for nothing.
std::string html_block(const std::string& text);
std::string html_section(const std::string& title, const std::string& body);

// One page with plots and tables that needs nothing from anywhere else.
std::string html_report(const std::string& tool, const cli::Setup& setup,
                        const std::vector<Judged>& workloads);

}  // namespace ferry::bench
