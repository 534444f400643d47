#include "ferry/cli/report_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ferry/cli/bench_size.h"

namespace ferry::cli {
namespace {

constexpr std::array<const char*, 10> kColours = {"#0b6e99", "#d9480f", "#2b8a3e", "#862e9c",
                                                  "#c92a2a", "#5f3dc4", "#087f5b", "#a61e4d",
                                                  "#495057", "#e67700"};
constexpr std::array<const char*, 3> kDashes = {"none", "7 4", "2 3"};

// A logarithmic axis from one pixel to another.
class Axis {
 public:
  Axis(double first, double last, double from, double to)
      : first_(std::log10(first)), last_(std::log10(last)), from_(from), to_(to) {}
  double at(double value) const {
    const double span = last_ - first_;
    const double part = span > 0 ? (std::log10(value) - first_) / span : 0.5;
    return from_ + part * (to_ - from_);
  }

 private:
  double first_, last_, from_, to_;
};

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = 0;
  void include(double value) {
    if (!(value > 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return high <= 0; }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" style=\"{}\"/>\n", x1, y1, x2,
      y2, style);
}

constexpr const char* kGrid = "stroke:#ddd";

// Powers of `base` within a range.
std::vector<double> ticks(const Range& range, double base) {
  std::vector<double> found;
  const double first = std::ceil(std::log(range.low) / std::log(base) - 1e-9);
  for (double value = std::pow(base, first); value <= range.high * 1.0001; value *= base)
    found.push_back(value);
  return found;
}

std::string svg_open(const std::string& title, int width, int height) {
  return fmt::format(
             "<svg viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n",
             width, height, width, height, escape_html(title)) +
         text_at(8, 18, "start", title);
}

std::string draw_series(const Series& series, std::size_t index, const Axis& x, const Axis& y) {
  const auto* colour = kColours[index % kColours.size()];
  const auto* dash = kDashes[static_cast<std::size_t>(series.group) % kDashes.size()];
  std::string path;
  std::string marks;
  for (const auto& point : series.points) {
    path += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}, {}: "
        "{}</title></circle>\n",
        x.at(point.x), y.at(point.y), colour, escape_html(series.name),
        size_text(static_cast<std::uint64_t>(point.x)), time_text(point.y));
    if (point.low > 0 && point.high > point.low)
      marks += line(x.at(point.x), y.at(point.low), x.at(point.x), y.at(point.high),
                    fmt::format("stroke:{}", colour).c_str());
  }
  return fmt::format(
             "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
             "stroke-dasharray=\"{}\"/>\n",
             path, colour, dash) +
         marks;
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string log_log_plot(const std::string& title, const std::vector<Series>& series) {
  Range xs;
  Range ys;
  for (const auto& one : series) {
    for (const auto& point : one.points) {
      xs.include(point.x);
      for (double y : {point.y, point.low, point.high}) ys.include(y);
    }
  }
  if (xs.empty() || ys.empty()) return "";
  const int height = std::max(480, 60 + 18 * static_cast<int>(series.size()));
  const Axis x(xs.low, xs.high, 80, 640);
  const Axis y(ys.low, ys.high, height - 40, 40);
  auto svg = svg_open(title, 940, height);
  for (double value : ticks(ys, 10)) {
    svg += line(80, y.at(value), 640, y.at(value), kGrid);
    svg += text_at(74, y.at(value) + 4, "end", time_text(value));
  }
  for (double value : ticks(xs, 16)) {
    svg += line(x.at(value), 40, x.at(value), height - 40, kGrid);
    svg +=
        text_at(x.at(value), height - 22, "middle", size_text(static_cast<std::uint64_t>(value)));
  }
  for (std::size_t i = 0; i < series.size(); ++i) {
    svg += draw_series(series[i], i, x, y);
    const double at = 50 + 18 * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"660\" y1=\"{0}\" x2=\"690\" y2=\"{0}\" stroke=\"{1}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{2}\"/>\n",
        at, kColours[i % kColours.size()],
        kDashes[static_cast<std::size_t>(series[i].group) % kDashes.size()]);
    svg += text_at(698, at + 4, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

std::string ratio_bars(const std::string& title, const std::vector<Bar>& bars) {
  Range range;
  range.include(0.8);
  range.include(1.25);
  for (const auto& bar : bars) {
    for (double value : {bar.value, bar.low, bar.high}) range.include(value);
  }
  if (bars.empty()) return "";
  const int height = 70 + 22 * static_cast<int>(bars.size());
  const Axis x(range.low, range.high, 330, 860);
  auto svg = svg_open(title, 940, height);
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const auto& bar = bars[i];
    const double top = 34 + 22 * static_cast<double>(i);
    const double from = std::min(x.at(1), x.at(bar.value));
    const double to = std::max(x.at(1), x.at(bar.value));
    svg += text_at(322, top + 12, "end", bar.label);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"14\" fill=\"{}\"/>\n",
                       from, top, std::max(to - from, 1.0), bar.value <= 1 ? "#2b8a3e" : "#d9480f");
    svg += line(x.at(bar.low), top + 7, x.at(bar.high), top + 7, "stroke:#000;stroke-width:1.5");
    svg += text_at(std::max(to, x.at(bar.high)) + 6, top + 12, "start",
                   fmt::format("{:.2f}", bar.value));
  }
  svg += line(x.at(1), 28, x.at(1), height - 34, "stroke:#000");
  svg += text_at(x.at(1), height - 18, "middle", "1");
  return svg + "</svg>\n";
}

}  // namespace ferry::cli
