#include "bench/report/html.h"

#include <fmt/format.h>

#include <functional>

#include "bench/report/table.h"
#include "ferry/cli/common/stats.h"
#include "ferry/cli/common/svg.h"
#include "ferry/cli/common/text.h"

namespace ferry::bench {

std::string html_block(const std::string& text) {
  return text.empty() ? "" : fmt::format("<pre>{}</pre>\n", cli::escape_html(text));
}

std::string html_section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", cli::escape_html(title), body);
}

namespace {

constexpr const char* kStyle =
    "body{font-family:sans-serif;margin:2em;max-width:1200px}svg{display:block;margin:1em 0}"
    "pre{background:#f6f6f6;padding:1em;overflow-x:auto}h2{margin-top:2em}";

std::string head_of(const std::string& tool) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      cli::escape_html(tool), kStyle);
}

std::string setup_block(const cli::Setup& setup) {
  std::string text = fmt::format("date     {}\n", setup.date);
  for (const auto& line : cli::setup_lines(setup)) text += line + "\n";
  return html_block(text);
}

std::string round_block(const Measurements& measured) {
  auto text = fmt::format("round    {}\n", measured.work.text());
  text += fmt::format("bytes    {}\n", checked_text(measured));
  if (measured.interrupted) text += "The run was interrupted: figures are incomplete.\n";
  return html_block(text);
}

// A whisker is a 95 % interval or is not drawn.
cli::Whisker whisker_of(const cli::Estimate& found, double unit = 1) {
  if (!found.has_interval()) return {};
  return {found.low / unit, found.high / unit};
}

using PointOf = std::function<cli::Point(const Cell&, std::uint64_t)>;

cli::Point time_point(const Cell& cell, std::uint64_t size) {
  const auto found = cli::estimate(cell.ns);
  return {static_cast<double>(size), found.median, whisker_of(found)};
}

cli::Point cpu_point(const Cell& cell, std::uint64_t size) {
  const auto bytes = static_cast<double>(size);
  return {bytes, cpu_seconds_per_gb(cell, size), whisker_of(cli::estimate(cell.cpu_ns), bytes)};
}

std::string cpu_text(double seconds) {
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

// The variants of one provider and what they are compared with.
std::vector<cli::Series> series_of(const std::string& provider, const Measurements& measured,
                                   const PointOf& point_of) {
  std::vector<cli::Series> all;
  for (const auto& variant : measured.variants) {
    if (way_of(variant) != provider) continue;
    cli::Series series{variant.title, static_cast<int>(variant.owner), {}};
    for (auto size : measured.sizes) {
      if (const auto* cell = measured.cell(variant.id, size); cell != nullptr)
        series.points.push_back(point_of(*cell, size));
    }
    if (!series.points.empty()) all.push_back(series);
  }
  return all;
}

// One picture for each provider: all lines in one could not be told apart.
std::string line_plots(const std::string& what, const Measurements& measured,
                       const PointOf& point_of, const std::function<std::string(double)>& y_text) {
  std::string plots;
  for (const char* provider : {"shm", "tcp", "verbs"})
    plots += cli::log_log_plot(
        fmt::format("{}, {} (ours full, limits dashed, peers dotted)", provider, what),
        series_of(provider, measured, point_of), y_text);
  return plots;
}

// One picture for each pair, size by size.
std::string ratio_plots(const Measurements& measured) {
  std::string plots;
  for (const auto& pair : comparisons(measured)) {
    std::vector<cli::Bar> bars;
    for (auto size : measured.sizes) {
      const auto* ours = measured.cell(pair.ours, size);
      const auto* other = measured.cell(pair.other, size);
      if (ours == nullptr || other == nullptr) continue;
      const auto ratio = cli::ratio_of_pairs(ours->ns, other->ns);
      bars.push_back({cli::size_text(size), ratio.median, ratio_text(ratio), whisker_of(ratio)});
    }
    plots += cli::ratio_bars(pair.title + " (time; below 1: ours is faster)", bars);
  }
  return plots;
}

std::string notes_list(const std::vector<std::string>& notes) {
  std::string items;
  for (const auto& note : notes) items += fmt::format("<li>{}</li>\n", cli::escape_html(note));
  return items.empty() ? "" : "<ul>\n" + items + "</ul>\n";
}

std::string workload_part(const Judged& one) {
  const auto& measured = one.measured;
  return round_block(measured) +
         html_section("Time", line_plots("time of a round", measured, time_point, cli::time_text)) +
         html_block(time_table(measured)) + html_section("Ratios", ratio_plots(measured)) +
         html_block(ratio_table(measured)) +
         html_section("CPU", line_plots("CPU seconds per GB, both processes", measured, cpu_point,
                                        cpu_text)) +
         html_block(cpu_table(measured)) +
         html_section("Beside the rounds", html_block(fact_table(measured.facts))) +
         html_section("Targets", html_block(verdict_table(one.verdicts))) +
         html_section("Notes", notes_list(measured.notes));
}

}  // namespace

std::string html_report(const std::string& tool, const cli::Setup& setup,
                        const std::vector<Judged>& workloads) {
  std::string body;
  for (const auto& one : workloads) body += workload_part(one);
  return html_page(tool, setup, body);
}

std::string html_page(const std::string& tool, const cli::Setup& setup, const std::string& body) {
  return head_of(tool) + setup_block(setup) + body + "</body></html>\n";
}

}  // namespace ferry::bench
