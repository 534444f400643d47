#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/base/error.h"

namespace ferry::cli {

// "64", "4K", "16M", "1G" (powers of 1024; a trailing "iB" or "B" is allowed) as bytes.
Result<std::uint64_t> parse_size(std::string_view text);

// "64 B", "4 KiB", "1.5 MiB".
std::string size_text(std::uint64_t bytes);

// Three digits and a unit: "270 ns", "1.42 ms".
std::string time_text(double ns);

// "a,b,c" without empty parts.
std::vector<std::string> split_list(std::string_view text);

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);

// The names of a list, all of which `option` must know.
Result<std::vector<std::string>> names_in(const std::string& list,
                                          const std::vector<std::string>& known,
                                          const char* option);

}  // namespace ferry::cli
