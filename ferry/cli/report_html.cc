#include "ferry/cli/report_html.h"

#include <fmt/format.h>

#include "ferry/cli/bench_size.h"
#include "ferry/cli/bench_stats.h"
#include "ferry/cli/report_svg.h"
#include "ferry/cli/report_table.h"

namespace ferry::cli {
namespace {

constexpr const char* kHead =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<title>ferry bench transfer</title>\n<style>body{font-family:sans-serif;margin:2em;"
    "max-width:1100px}pre{background:#f6f6f6;padding:1em;overflow-x:auto}"
    "h2{margin-top:2em}</style></head><body>\n<h1>ferry bench transfer</h1>\n";

std::string block(const std::string& text) {
  return text.empty() ? "" : fmt::format("<pre>{}</pre>\n", escape_html(text));
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", escape_html(title), body);
}

std::string setup_block(const Setup& setup, const Measurements& measured) {
  std::string text = fmt::format("date     {}\n", setup.date);
  for (const auto& line : setup_lines(setup)) text += line + "\n";
  text += fmt::format("round    A gives B a tensor, B reads {}, B answers\n",
                      measured.touch_all ? "every line" : "one byte per page");
  text += fmt::format("bytes    {}\n", checked_text(measured));
  if (measured.interrupted) text += "The run was interrupted: figures are incomplete.\n";
  return block(text);
}

std::string time_plot(const Measurements& measured) {
  std::vector<Series> all;
  for (const auto& variant : measured.variants) {
    Series series{variant.title, static_cast<int>(variant.owner), {}};
    for (auto size : measured.sizes) {
      const auto* cell = measured.cell(variant.id, size);
      if (cell == nullptr) continue;
      const auto found = estimate(cell->ns);
      series.points.push_back({static_cast<double>(size), found.median, found.low, found.high});
    }
    if (!series.points.empty()) all.push_back(series);
  }
  return log_log_plot("Time of a round by size (ours full, limits dashed, peers dotted)", all);
}

// One picture for each of ours: its bars are the others, size by size.
std::string ratio_plots(const Measurements& measured) {
  std::string plots;
  for (const auto& pair : comparisons(measured)) {
    std::vector<Bar> bars;
    for (auto size : measured.sizes) {
      const auto* ours = measured.cell(pair.ours, size);
      const auto* other = measured.cell(pair.other, size);
      if (ours == nullptr || other == nullptr) continue;
      const auto ratio = ratio_of_pairs(ours->ns, other->ns);
      bars.push_back({size_text(size), ratio.median, ratio.low, ratio.high});
    }
    plots += ratio_bars(pair.title + " (below 1: ours is faster)", bars);
  }
  return plots;
}

std::string notes_list(const std::vector<std::string>& notes) {
  std::string items;
  for (const auto& note : notes) items += fmt::format("<li>{}</li>\n", escape_html(note));
  return items.empty() ? "" : "<ul>\n" + items + "</ul>\n";
}

}  // namespace

std::string html_report(const Setup& setup, const Measurements& measured,
                        const std::vector<Verdict>& verdicts) {
  return kHead + setup_block(setup, measured) + section("Time", time_plot(measured)) +
         block(time_table(measured)) + section("Ratios", ratio_plots(measured)) +
         block(ratio_table(measured)) + section("CPU", block(cpu_table(measured))) +
         section("Beside the rounds", block(fact_table(measured.facts))) +
         section("Targets", block(verdict_table(verdicts))) +
         section("Notes", notes_list(measured.notes)) + "</body></html>\n";
}

}  // namespace ferry::cli
