#pragma once

#include <string>
#include <vector>

#include "bench/driver/measure.h"
#include "bench/driver/targets.h"
#include "ferry/cli/common/stats.h"

namespace ferry::bench {

// Median time of a round and its spread, variant by size. Fewer than kLeastForInterval repetitions
// have a median only, here and in ratio_table().
std::string time_table(const Measurements& measured);
// CPU seconds per 10^9 bytes, both processes, variant by size.
std::string cpu_table(const Measurements& measured);
// The time of each variant of ours over the time of the limits and peers that the targets compare
// it with.
std::string ratio_table(const Measurements& measured);
std::string verdict_table(const std::vector<Verdict>& verdicts);
std::string bound_text(const Target& target);

// A pair of columns that belong together in a ratio: ours over the other.
struct Comparison {
  std::string ours;
  std::string other;
  std::string title;
};
// Those of which both sides were measured at some size.
std::vector<Comparison> comparisons(const Measurements& measured);

// "5 GiB checked byte by byte, 0 wrong"
std::string checked_text(const Measurements& measured);
// "1.07 (1.02..1.11)"; one value alone is "1.07"
std::string ratio_text(const cli::Estimate& ratio);
double cpu_seconds_per_gb(const Cell& cell, std::uint64_t size);

}  // namespace ferry::bench
