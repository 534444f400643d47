#pragma once

#include <string>

#include "ferry/base/error.h"

namespace ferry::cli {

// Whether write_report() will be able to; asked before minutes are spent on what it is to write.
Status check_writable(const std::string& path);
// "-" is stdout.
Status write_report(const std::string& path, const std::string& text);

}  // namespace ferry::cli
