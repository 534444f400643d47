#include "ferry/cli/common/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace ferry::cli {
namespace {

// Characters a terminal shows: bytes that do not continue a UTF-8 sequence.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string gap(width - std::min(width, width_of(text)), ' ');
  return left ? text + gap : gap + text;
}

std::string line_of(const std::vector<std::string>& row, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i)
    line += (i == 0 ? "" : "  ") + padded(row[i], widths[i], i == 0);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string rule_of(const std::vector<std::size_t>& widths) {
  std::size_t all = 2 * (widths.size() - 1);
  for (auto width : widths) all += width;
  return std::string(all, '-') + "\n";
}

}  // namespace

std::string render_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(head.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  };
  widen(head);
  for (const auto& row : rows) widen(row);
  auto text = line_of(head, widths) + rule_of(widths);
  for (const auto& row : rows) text += row.empty() ? rule_of(widths) : line_of(row, widths);
  return text;
}

std::string range_text(const Estimate& found, const std::function<std::string(double)>& text) {
  if (found.has_interval()) return fmt::format("{}..{}", text(found.low), text(found.high));
  return fmt::format("min {}, max {}", text(found.low), text(found.high));
}

}  // namespace ferry::cli
