#include "ferry/cli/tune_show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ferry/cli/common/table.h"
#include "ferry/cli/common/text.h"
#include "ferry/fabric/types.h"

namespace ferry::cli {
namespace {

using mail::Calibration;
using mail::Curve;
using mail::Tuning;
using mail::TuningEntry;
using Names = mail::CurveNames;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kPlotWidth = 40;

// As wide as the plots below it.
std::string plot_head() { return fmt::format("{:<{}}", "time, log scale", kPlotWidth); }

std::string host_text(const std::string& host) {
  return host == fabric::host_id() ? "this host" : fmt::format("host {:.8}", host);
}

std::string span_text(Nanos span) { return time_text(static_cast<double>(span.count())); }

struct Span {
  double least = 0;
  double greatest = 0;
};

Span span_of(std::initializer_list<const Curve*> curves) {
  Span span{1e18, 0};
  for (const auto* curve : curves) {
    for (const auto& point : curve->points) {
      span.least = std::min(span.least, point.ns);
      span.greatest = std::max(span.greatest, point.ns);
    }
  }
  return span;
}

// Two ways by size: which of them is used where.
std::string threshold_table(const Calibration& found, const char* small, const char* large,
                            std::uint64_t threshold) {
  const auto* first = found.curve(small);
  const auto* second = found.curve(large);
  if (first == nullptr || second == nullptr) return "";
  const auto span = span_of({first, second});
  const std::string marks = {small[0], large[0]};
  Rows rows;
  for (std::size_t i = 0; i < std::min(first->points.size(), second->points.size()); ++i) {
    const auto& one = first->points[i];
    const auto& other = second->points[i];
    rows.push_back({size_text(one.at), time_text(one.ns), time_text(other.ns),
                    plot_line({one.ns, other.ns}, marks, span.least, span.greatest, kPlotWidth),
                    one.at <= threshold ? small : large});
  }
  return fmt::format("\n{}", render_table({"message", small, large, plot_head(), "used"}, rows));
}

// One value: which of them is used.
std::string value_table(const Calibration& found, const char* name, const std::string& what,
                        std::uint64_t chosen, std::string (*text)(std::uint64_t)) {
  const auto* curve = found.curve(name);
  if (curve == nullptr) return "";
  const auto span = span_of({curve});
  Rows rows;
  for (const auto& point : curve->points)
    rows.push_back({text(point.at), time_text(point.ns),
                    plot_line({point.ns}, "*", span.least, span.greatest, kPlotWidth),
                    point.at == chosen ? "used" : ""});
  return fmt::format("\n{}", render_table({what, "round", plot_head(), ""}, rows));
}

std::string count_text(std::uint64_t count) { return std::to_string(count); }
std::string ns_text(std::uint64_t ns) {
  return ns == 0 ? "none" : time_text(static_cast<double>(ns));
}

// A spin is not always one of those that were measured: a wake-up may cost more.
std::string spin_text(const Calibration& found) {
  const auto used = static_cast<std::uint64_t>(found.tuning.spin.count());
  auto text = value_table(found, Names::kSpin, "64 B, spin", used, ns_text);
  const auto* asleep = found.curve(Names::kAsleep);
  if (!text.empty() && asleep != nullptr && !asleep->points.empty())
    text +=
        fmt::format("asleep at once: {}; the spin is what that costs more, or what a round needs\n",
                    time_text(asleep->points[0].ns));
  return text;
}

std::string curves_text(const Calibration& found) {
  const auto& tuning = found.tuning;
  return threshold_table(found, Names::kEager, Names::kAnnounced, tuning.eager_threshold) +
         threshold_table(found, Names::kCopied, Names::kRegistered, tuning.copy_up_to) +
         value_table(found, Names::kChunk, "4 MiB by chunks of", tuning.chunk_bytes, size_text) +
         value_table(found, Names::kInFlight, "4 MiB, chunks at once", tuning.chunks_in_flight,
                     count_text) +
         spin_text(found);
}

}  // namespace

std::string plot_line(const std::vector<double>& times, const std::string& marks, double least,
                      double greatest, std::size_t width) {
  std::string line(width, ' ');
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double whole = std::log(greatest / least);
    const double share = whole > 0 ? std::log(times[i] / least) / whole : 0;
    const double inside = share > 0 ? std::min(share, 1.0) : 0;  // also what is no number
    const auto at = static_cast<std::size_t>(std::lround(inside * static_cast<double>(width - 1)));
    line[at] = line[at] == ' ' ? marks[i] : '=';
  }
  return line;
}

std::string to_text(const TuningEntry& entry) {
  const auto& tuning = entry.found.tuning;
  const auto& path = entry.path;
  const auto ends =
      path.host == path.other_host
          ? fmt::format("within {}", host_text(path.host))
          : fmt::format("between {} and {}", host_text(path.host), host_text(path.other_host));
  auto text =
      fmt::format("{} {}, measured {} on {}\n", path.provider, ends, entry.when, entry.where);
  text += fmt::format("  eager threshold   {:>8}  larger messages are announced and read\n",
                      size_text(tuning.eager_threshold));
  text += fmt::format("  copy up to        {:>8}  larger parts of ordinary memory are registered\n",
                      size_text(tuning.copy_up_to));
  text += fmt::format("  chunk             {:>8}  large messages are read in pieces of this\n",
                      size_text(tuning.chunk_bytes));
  text += fmt::format("  chunks in flight  {:>8}  of one message\n", tuning.chunks_in_flight);
  text +=
      fmt::format("  spin              {:>8}  before a waiter sleeps\n", span_text(tuning.spin));
  if (entry.found.curves.empty())
    return text + "  taken over from the peer, which has the curves\n";
  return text + curves_text(entry.found);
}

nlohmann::json to_json(const std::vector<TuningEntry>& entries) {
  auto list = nlohmann::json::array();
  for (const auto& entry : entries) list.push_back(nlohmann::json::parse(entry.to_text()));
  return {{"tunings", list}};
}

}  // namespace ferry::cli
