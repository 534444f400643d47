#include "ferry/cli/common/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

constexpr std::array<const char*, 10> kColours = {"#0b6e99", "#d9480f", "#2b8a3e", "#862e9c",
                                                  "#c92a2a", "#5f3dc4", "#087f5b", "#a61e4d",
                                                  "#495057", "#e67700"};
constexpr std::array<const char*, 3> kDashes = {"none", "7 4", "2 3"};
constexpr const char* kGrid = "stroke:#ddd";
constexpr const char* kFrame = "stroke:#000";

// All pictures are this wide; what stands left and right of the area has room of its own.
constexpr int kWidth = 1160;
constexpr double kLeft = 90;
constexpr double kTop = 40;
// Names of lines are at most about 40 letters, ratios with their intervals about 25.
constexpr double kLinesRight = 820;
constexpr double kBarsRight = 960;
constexpr double kLegendLine = 20;
constexpr double kBarRow = 24;
// Between the middles of two labels, so that they do not touch.
constexpr double kLabelWidth = 64;
constexpr double kLabelHeight = 18;

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
  void include(const Whisker& whisker) {
    include(whisker.low);
    include(whisker.high);
  }
  bool empty() const { return high <= 0; }
  // Room for what is drawn around the outermost values.
  Range widened(double factor) const { return {low / factor, high * factor}; }
};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" style=\"{}\"/>\n", x1, y1, x2,
      y2, style);
}

// Powers of ten within a range; 2 and 5 between them where there would be few.
std::vector<double> ticks(const Range& range) {
  const bool few = range.high / range.low < 1000;
  std::vector<double> found;
  for (double power = std::pow(10, std::floor(std::log10(range.low))); power <= range.high;
       power *= 10) {
    for (double step : {1, 2, 5}) {
      const double value = power * step;
      if ((few || step == 1) && value >= range.low && value <= range.high) found.push_back(value);
    }
  }
  return found;
}

// Those of the values, from the smallest on, that leave `gap` pixels between each other.
std::vector<double> spaced(const std::vector<double>& values, const Axis& axis, double gap) {
  std::vector<double> kept;
  for (double value : values) {
    if (kept.empty() || std::abs(axis.at(value) - axis.at(kept.back())) >= gap)
      kept.push_back(value);
  }
  return kept;
}

// Shrinks with a narrow window rather than being cut off.
std::string svg_open(const std::string& title, double height) {
  return fmt::format(
             "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" style=\"max-width:100%;height:auto\" "
             "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n",
             kWidth, height, escape_html(title)) +
         text_at(8, 20, "start", title);
}

struct Pen {
  const char* colour;
  const char* dash;
};

// One for each series: no two are alike before a group has more series than there are colours.
std::vector<Pen> pens_of(const std::vector<Series>& series) {
  std::map<int, std::size_t> used;
  std::vector<Pen> pens;
  for (const auto& one : series) {
    const auto* dash = kDashes[static_cast<std::size_t>(one.group) % kDashes.size()];
    pens.push_back({kColours[used[one.group]++ % kColours.size()], dash});
  }
  return pens;
}

bool has_width(const Whisker& whisker) { return whisker.low > 0 && whisker.high > whisker.low; }

std::string draw_whisker(const Whisker& whisker, double x, const Axis& y, const Pen& pen) {
  if (!has_width(whisker)) return "";
  return line(x, y.at(whisker.low), x, y.at(whisker.high), fmt::format("stroke:{}", pen.colour));
}

std::string draw_series(const Series& series, const Pen& pen, const Axis& x, const Axis& y,
                        const std::function<std::string(double)>& y_text) {
  std::string path;
  std::string marks;
  for (const auto& point : series.points) {
    if (!(point.x > 0 && point.y > 0)) continue;
    path += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}, {}: "
        "{}</title></circle>\n",
        x.at(point.x), y.at(point.y), pen.colour, escape_html(series.name),
        size_text(static_cast<std::uint64_t>(point.x)), escape_html(y_text(point.y)));
    marks += draw_whisker(point.whisker, x.at(point.x), y, pen);
  }
  return fmt::format(
             "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
             "stroke-dasharray=\"{}\"/>\n",
             path, pen.colour, pen.dash) +
         marks;
}

// Right of the area, one name below the other.
std::string draw_legend(const std::vector<Series>& series, const std::vector<Pen>& pens) {
  std::string svg;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double at = kTop + 10 + kLegendLine * static_cast<double>(i);
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{4}\"/>\n",
        kLinesRight + 24, at, kLinesRight + 64, pens[i].colour, pens[i].dash);
    svg += text_at(kLinesRight + 72, at + 4, "start", series[i].name);
  }
  return svg;
}

std::string draw_frame(double right, double bottom) {
  return line(kLeft, kTop, kLeft, bottom, kFrame) + line(kLeft, bottom, right, bottom, kFrame);
}

// The bar begins at 1; what it says stands right of all that belongs to it.
std::string draw_bar(const Bar& bar, double top, const Axis& x) {
  if (!(bar.value > 0)) return "";
  const double from = std::min(x.at(1), x.at(bar.value));
  const double to = std::max(x.at(1), x.at(bar.value));
  double end = to;
  auto svg = text_at(kLeft - 8, top + 11, "end", bar.label) +
             fmt::format(
                 "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" "
                 "fill=\"{}\"/>\n",
                 from, top, std::max(to - from, 1.0), bar.value <= 1 ? "#2b8a3e" : "#d9480f");
  if (has_width(bar.whisker)) {
    end = std::max(to, x.at(bar.whisker.high));
    svg += line(x.at(bar.whisker.low), top + 7, x.at(bar.whisker.high), top + 7,
                "stroke:#000;stroke-width:1.5");
  }
  return svg + text_at(end + 8, top + 11, "start", bar.value_text);
}

// A round number of steps of 1, 2 or 5 times a power of ten, from 0 up to a value.
std::vector<double> plain_ticks(double high) {
  constexpr double kMostTicks = 8;
  double step = std::pow(10, std::floor(std::log10(high)));
  for (const double part : {0.2, 0.5}) {
    if (high / (step * part) <= kMostTicks) {
      step *= part;
      break;
    }
  }
  std::vector<double> found;
  for (double value = 0; value <= high; value += step) found.push_back(value);
  return found;
}

std::string draw_line(const Series& series, const Pen& pen, double x_scale, double y_scale,
                      double bottom) {
  std::string path;
  for (const auto& point : series.points)
    path += fmt::format("{:.1f},{:.1f} ", kLeft + point.x * x_scale, bottom - point.y * y_scale);
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
      "stroke-dasharray=\"{}\"/>\n",
      path, pen.colour, pen.dash);
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

std::string log_log_plot(const std::string& title, const std::vector<Series>& series,
                         const std::function<std::string(double)>& y_text) {
  std::set<double> sizes;
  Range xs;
  Range ys;
  for (const auto& one : series) {
    for (const auto& point : one.points) {
      if (!(point.x > 0 && point.y > 0)) continue;
      sizes.insert(point.x);
      xs.include(point.x);
      ys.include(point.y);
      ys.include(point.whisker);
    }
  }
  if (xs.empty()) return "";
  xs = xs.widened(1.3);
  ys = ys.widened(1.5);
  const double bottom =
      kTop + std::max(440.0, 20 + kLegendLine * static_cast<double>(series.size()));
  const Axis x(xs.low, xs.high, kLeft, kLinesRight);
  const Axis y(ys.low, ys.high, bottom, kTop);
  auto svg = svg_open(title, bottom + 40);
  for (double value : spaced(ticks(ys), y, kLabelHeight)) {
    svg += line(kLeft, y.at(value), kLinesRight, y.at(value), kGrid);
    svg += text_at(kLeft - 8, y.at(value) + 4, "end", y_text(value));
  }
  for (double value : spaced({sizes.begin(), sizes.end()}, x, kLabelWidth)) {
    svg += line(x.at(value), kTop, x.at(value), bottom, kGrid);
    svg +=
        text_at(x.at(value), bottom + 20, "middle", size_text(static_cast<std::uint64_t>(value)));
  }
  const auto pens = pens_of(series);
  for (std::size_t i = 0; i < series.size(); ++i)
    svg += draw_series(series[i], pens[i], x, y, y_text);
  return svg + draw_frame(kLinesRight, bottom) + draw_legend(series, pens) + "</svg>\n";
}

std::string line_plot(const std::string& title, const std::vector<Series>& series,
                      const std::function<std::string(double)>& x_text,
                      const std::function<std::string(double)>& y_text) {
  Range xs;
  Range ys;
  for (const auto& one : series)
    for (const auto& point : one.points) {
      xs.include(point.x);
      ys.include(point.y);
    }
  if (xs.empty() || ys.empty()) return "";
  const double bottom = kTop + 440;
  const double x_scale = (kLinesRight - kLeft) / (xs.high * 1.02);
  const double y_scale = (bottom - kTop) / (ys.high * 1.05);
  auto svg = svg_open(title, bottom + 40);
  for (const double value : plain_ticks(ys.high * 1.05)) {
    const double at = bottom - value * y_scale;
    svg += line(kLeft, at, kLinesRight, at, kGrid);
    svg += text_at(kLeft - 8, at + 4, "end", y_text(value));
  }
  for (const double value : plain_ticks(xs.high * 1.02))
    svg += text_at(kLeft + value * x_scale, bottom + 20, "middle", x_text(value));
  const auto pens = pens_of(series);
  for (std::size_t i = 0; i < series.size(); ++i)
    svg += draw_line(series[i], pens[i], x_scale, y_scale, bottom);
  return svg + draw_frame(kLinesRight, bottom) + draw_legend(series, pens) + "</svg>\n";
}

std::string ratio_bars(const std::string& title, const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  Range range{0.5, 2};
  for (const auto& bar : bars) {
    range.include(bar.value);
    range.include(bar.whisker);
  }
  const double bottom = kTop + kBarRow * static_cast<double>(bars.size());
  const Axis x(range.low, range.high, kLeft, kBarsRight);
  auto svg = svg_open(title, bottom + 40);
  for (double value : spaced(ticks(range), x, kLabelWidth)) {
    svg += line(x.at(value), kTop, x.at(value), bottom, kGrid);
    svg += text_at(x.at(value), bottom + 20, "middle", fmt::format("{:.4g}", value));
  }
  for (std::size_t i = 0; i < bars.size(); ++i)
    svg += draw_bar(bars[i], kTop + 5 + kBarRow * static_cast<double>(i), x);
  return svg + line(x.at(1), kTop - 4, x.at(1), bottom, kFrame) + "</svg>\n";
}

}  // namespace ferry::cli
