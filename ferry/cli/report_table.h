#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ferry/cli/bench_measure.h"
#include "ferry/cli/bench_targets.h"

namespace ferry::cli {

// Columns lined up by what a terminal shows; the first to the left, the others to the right. Rows
// may be shorter than the head. An empty row becomes a rule.
std::string render_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

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
// The interval as "1.02..1.11", or "min 1.02, max 1.11" where there are too few values for one.
std::string range_text(const Estimate& found, const std::function<std::string(double)>& text);
// "1.07 (1.02..1.11)"; one value alone is "1.07"
std::string ratio_text(const Estimate& ratio);
double cpu_seconds_per_gb(const Cell& cell, std::uint64_t size);

}  // namespace ferry::cli
