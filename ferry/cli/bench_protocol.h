#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferry/base/error.h"

// The lines that `ferry bench transfer` and its round programs exchange; bench/limits/round.h says
// what they mean.
namespace ferry::cli {

struct RoundHello {
  std::string name;
  std::string what;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
};

struct RoundOrder {
  std::uint64_t bytes = 0;
  std::uint64_t rounds = 0;
  bool touch_all = false;
  bool sleep = false;
};

struct RoundResult {
  double ns = 0;
  double cpu_ns = 0;
  std::uint64_t checked = 0;
  std::uint64_t bad = 0;
};

std::string run_line(const RoundOrder& order);
// An `error` line becomes an Error with the program's own sentence.
Result<RoundHello> parse_hello(std::string_view line);
Result<RoundResult> parse_result(std::string_view line);

}  // namespace ferry::cli
