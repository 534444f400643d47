#pragma once

#include <string>
#include <vector>

namespace ferry::cli {

struct Point {
  double x = 0;
  double y = 0;
  // The interval of y, drawn as a whisker where it is wider than nothing.
  double low = 0;
  double high = 0;
};

struct Series {
  std::string name;
  // Of the palette; equal groups are drawn alike (full, dashed, dotted).
  int group = 0;
  std::vector<Point> points;
};

// Lines over two logarithmic axes: bytes to the right, nanoseconds upwards.
std::string log_log_plot(const std::string& title, const std::vector<Series>& series);

struct Bar {
  std::string label;
  double value = 0;
  double low = 0;
  double high = 0;
};

// Bars of ratios with whiskers, on a logarithmic axis with a line at 1.
std::string ratio_bars(const std::string& title, const std::vector<Bar>& bars);

// For text between tags and in attributes.
std::string escape_html(const std::string& text);

}  // namespace ferry::cli
