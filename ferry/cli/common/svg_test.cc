#include "ferry/cli/common/svg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ferry/cli/common/text.h"

namespace ferry::cli {
namespace {

// Every x (or other attribute) in a picture.
std::vector<double> numbers_of(const std::string& svg, const std::string& attribute) {
  std::vector<double> found;
  const auto key = " " + attribute + "=\"";
  for (auto at = svg.find(key); at != std::string::npos; at = svg.find(key, at + 1))
    found.push_back(std::stod(svg.substr(at + key.size())));
  return found;
}

TEST(ReportSvg, DrawsNothingOfNothing) {
  EXPECT_EQ(log_log_plot("t", {}, time_text), "");
  EXPECT_EQ(log_log_plot("t", {{"none", 0, {{64, 0, {}}}}}, time_text), "");
  EXPECT_EQ(ratio_bars("t", {}), "");
}

TEST(ReportSvg, OnePointHasAPlace) {
  const auto svg = log_log_plot("t", {{"one", 0, {{64, 100, {100, 100}}}}}, time_text);
  EXPECT_NE(svg.find("<circle"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(ReportSvg, NamesStandOutsideTheAreaAndNothingIsCutOff) {
  std::vector<Series> series;
  for (int i = 0; i < 30; ++i)
    series.push_back(
        {"a line with a rather long name", i % 3, {{1, 1e-3, {}}, {1 << 30, 1e9, {}}}});
  const auto svg = log_log_plot("t", series, time_text);
  const auto circles = numbers_of(svg, "cx");
  const double rightmost = *std::max_element(circles.begin(), circles.end());
  const auto first_name = svg.find("\"start\">a line with");
  const auto name_x = svg.rfind(" x=\"", first_name);
  EXPECT_GT(std::stod(svg.substr(name_x + 4)), rightmost + 40);
  const auto height = std::stod(svg.substr(svg.find("viewBox=\"0 0 1160 ") + 18));
  for (double y : numbers_of(svg, "y")) EXPECT_LT(y, height);
}

TEST(ReportSvg, LabelsOfCloseSizesDoNotTouch) {
  Series close{"one", 0, {}};
  for (int i = 0; i < 200; ++i) close.points.push_back({1024.0 * (i + 1), 5, {}});
  const auto svg = log_log_plot("t", {close}, time_text);
  EXPECT_LT(numbers_of(svg, "x").size(), 30u);
}

TEST(ReportSvg, BarsSayWhatTheyAreTold) {
  const auto svg = ratio_bars("t", {{"64 B", 0.004, "0.0040 (0.0031..0.25)", {0.0031, 0.25}}});
  EXPECT_NE(svg.find("0.0040 (0.0031..0.25)"), std::string::npos);
}

}  // namespace
}  // namespace ferry::cli
