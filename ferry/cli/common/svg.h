#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ferry::cli {

// A 95 % interval, drawn where it is wider than nothing.
struct Whisker {
  double low = 0;
  double high = 0;
};

struct Point {
  double x = 0;
  double y = 0;
  Whisker whisker = {};
};

struct Series {
  std::string name;
  // Equal groups are drawn alike (full, dashed, dotted), each series of one in another colour.
  int group = 0;
  std::vector<Point> points;
};

// Lines over two logarithmic axes, bytes to the right, with the names beside them. `y_text` writes
// what goes upwards. Points that have no logarithm are left out.
std::string log_log_plot(const std::string& title, const std::vector<Series>& series,
                         const std::function<std::string(double)>& y_text);

// Lines over two plain axes that begin at 0, without marks.
std::string line_plot(const std::string& title, const std::vector<Series>& series,
                      const std::function<std::string(double)>& x_text,
                      const std::function<std::string(double)>& y_text);

struct Bar {
  std::string label;
  double value = 0;
  std::string value_text;
  Whisker whisker = {};
};

// Bars of ratios on a logarithmic axis that begin at 1.
std::string ratio_bars(const std::string& title, const std::vector<Bar>& bars);

// For text between tags and in attributes.
std::string escape_html(const std::string& text);

}  // namespace ferry::cli
