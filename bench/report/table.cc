#include "bench/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {
namespace {

std::vector<std::string> size_head(const std::string& first, const Measurements& measured) {
  std::vector<std::string> head = {first};
  for (auto size : measured.sizes) head.push_back(cli::size_text(size));
  return head;
}

using CellText = std::function<std::string(const Cell&, std::uint64_t)>;

// One row per variant that was measured at all, a rule between owners.
std::string variant_table(const std::string& title, const Measurements& measured,
                          const CellText& text) {
  std::vector<std::vector<std::string>> rows;
  const Variant* last = nullptr;
  for (const auto& variant : measured.variants) {
    std::vector<std::string> row = {variant.title};
    bool any = false;
    for (auto size : measured.sizes) {
      const auto* cell = measured.cell(variant.id, size);
      any = any || cell != nullptr;
      row.push_back(cell == nullptr ? "-" : text(*cell, size));
    }
    if (!any) continue;
    if (last != nullptr && last->owner != variant.owner) rows.emplace_back();
    rows.push_back(row);
    last = &variant;
  }
  return cli::render_table(size_head(title, measured), rows);
}

// Ours may be a thousand times faster: keep two digits that mean something.
std::string plain_ratio(double value) {
  const auto size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 0.1 || size == 0 ? 2 : size >= 0.01 ? 3 : 4);
}

// The median and half the interval's width, where there is an interval.
std::string short_ratio(const cli::Estimate& ratio) {
  if (!ratio.has_interval()) return plain_ratio(ratio.median);
  return fmt::format("{} ±{:.0f}%", plain_ratio(ratio.median),
                     50 * (ratio.high - ratio.low) / ratio.median);
}

std::string time_and_spread(const Cell& cell, std::uint64_t) {
  const double middle = cli::median(cell.ns);
  if (cell.ns.size() < cli::kLeastForInterval) return cli::time_text(middle);
  return fmt::format("{} ±{:.0f}%", cli::time_text(middle), 100 * cli::spread(cell.ns) / middle);
}

}  // namespace

std::string time_table(const Measurements& measured) {
  return variant_table("time of a round", measured, time_and_spread);
}

std::string cpu_table(const Measurements& measured) {
  return variant_table("CPU s/GB", measured, [](const Cell& cell, std::uint64_t size) {
    const double seconds = cpu_seconds_per_gb(cell, size);
    return fmt::format("{:.{}f}", seconds, seconds < 10 ? 3 : 0);
  });
}

double cpu_seconds_per_gb(const Cell& cell, std::uint64_t size) {
  return cli::median(cell.cpu_ns) / static_cast<double>(size);
}

std::vector<Comparison> comparisons(const Measurements& measured) {
  const auto title_of = [&](const std::string& id) {
    for (const auto& variant : measured.variants) {
      if (variant.id == id) return variant.title;
    }
    return id;
  };
  std::vector<Comparison> found;
  for (const auto& target : *measured.targets) {
    for (const auto& other : target.denominators) {
      const bool known = std::any_of(found.begin(), found.end(), [&](const Comparison& c) {
        return c.ours == target.numerator && c.other == other;
      });
      const bool measured_both =
          std::any_of(measured.sizes.begin(), measured.sizes.end(), [&](std::uint64_t size) {
            return measured.cell(target.numerator, size) != nullptr &&
                   measured.cell(other, size) != nullptr;
          });
      if (!known && measured_both)
        found.push_back(
            {target.numerator, other, title_of(target.numerator) + " / " + title_of(other)});
    }
  }
  return found;
}

std::string checked_text(const Measurements& measured) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto bytes = measured.checked_bytes;
  return fmt::format("{} checked byte by byte, {} wrong",
                     cli::size_text(bytes < kMiB ? bytes : bytes / kMiB * kMiB), measured.bad);
}

std::string ratio_text(const cli::Estimate& ratio) {
  if (ratio.count < 2) return plain_ratio(ratio.median);
  return fmt::format("{} ({})", plain_ratio(ratio.median), cli::range_text(ratio, plain_ratio));
}

std::string ratio_table(const Measurements& measured) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& pair : comparisons(measured)) {
    std::vector<std::string> row = {pair.title};
    for (auto size : measured.sizes) {
      const auto* ours = measured.cell(pair.ours, size);
      const auto* other = measured.cell(pair.other, size);
      const bool both = ours != nullptr && other != nullptr;
      row.push_back(both ? short_ratio(cli::ratio_of_pairs(ours->ns, other->ns)) : "-");
    }
    rows.push_back(row);
  }
  if (rows.empty()) return "";
  return cli::render_table(size_head("time, ours / theirs (± 95 %)", measured), rows);
}

std::string bound_text(const Target& target) {
  const auto* unit = target.metric == Target::Metric::kMoreUs ? " us more"
                     : target.metric == Target::Metric::kUs   ? " us"
                                                              : "";
  return fmt::format("<= {}{}", plain_ratio(target.bound), unit);
}

std::string verdict_table(const std::vector<Verdict>& verdicts) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(verdicts.size());
  for (const auto& verdict : verdicts) {
    rows.push_back({verdict.target->id, cli::size_text(verdict.size), verdict.denominator,
                    ratio_text(verdict.ratio), bound_text(*verdict.target),
                    outcome_name(verdict.outcome)});
  }
  if (rows.empty()) return "";
  return cli::render_table({"target", "size", "against", "ratio (95 %)", "bound", "verdict"}, rows);
}

}  // namespace ferry::bench
