#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferry/base/error.h"

// The lines that `ferry bench transfer` and its round programs exchange; bench/limits/round.h says
// what they mean.
namespace ferry::bench {

struct RoundHello {
  std::string name;
  std::string what;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
};

// What both sides do with the tensor in a round, within the clock.
struct Workload {
  enum class Read { kPages, kLines, kBytes };
  Read read = Read::kPages;
  bool produce = false;  // the giver writes it anew

  const char* touch() const;  // as the programs are told
  std::string text() const;   // "A gives B a tensor, B reads one byte per page, B answers"
  friend bool operator==(const Workload&, const Workload&) = default;
};

struct RoundOrder {
  std::uint64_t bytes = 0;
  std::uint64_t rounds = 0;
  Workload work = {};
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

}  // namespace ferry::bench
