#include "ferry/cli/common/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ferry::cli {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;

// The power of 1024 that a suffix stands for, or -1.
int power_of(std::string_view suffix) {
  for (std::string_view end : {"iB", "B"}) {
    if (suffix.size() >= end.size() && suffix.substr(suffix.size() - end.size()) == end) {
      suffix.remove_suffix(end.size());
      break;
    }
  }
  if (suffix.empty()) return 0;
  if (suffix == "K" || suffix == "k") return 1;
  if (suffix == "M" || suffix == "m") return 2;
  if (suffix == "G" || suffix == "g") return 3;
  return -1;
}

// Three significant digits, never in exponents.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 9.995 ? 1 : 2);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const int power = power_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error != std::errc() || power < 0 || value == 0)
    return fail(Code::kInvalidArgument, "size '{}' is not a number of bytes such as 64, 4K or 1G",
                text);
  const auto unit = std::uint64_t{1} << (10 * power);
  if (value > kLargest / unit)
    return fail(Code::kInvalidArgument, "size '{}' is larger than this tool can measure", text);
  return value * unit;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"B", "KiB", "MiB", "GiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  const bool whole = value == std::floor(value);
  return fmt::format("{:.{}f} {}", value, whole ? 0 : 1, kUnits[unit]);
}

std::string time_text(double ns) {
  constexpr std::array<std::string_view, 4> kUnits = {"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  for (; ns >= 999.5 && unit + 1 < kUnits.size(); ++unit) ns /= 1000;
  return fmt::format("{} {}", three_digits(ns), kUnits[unit]);
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  for (const auto& part : split_list(text)) sizes.push_back(FERRY_TRY(parse_size(part)));
  if (sizes.empty()) return fail(Code::kInvalidArgument, "no size given; try --sizes 64,4K,1M");
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Result<std::vector<std::string>> names_in(const std::string& list,
                                          const std::vector<std::string>& known,
                                          const char* option) {
  auto names = split_list(list);
  for (const auto& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return fail(Code::kInvalidArgument, "{} does not know '{}'; it takes {}", option, name,
                  fmt::join(known, ", "));
  }
  return names;
}

}  // namespace ferry::cli
