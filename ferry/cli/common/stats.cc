#include "ferry/cli/common/stats.h"

#include <algorithm>
#include <cmath>

namespace ferry::cli {
namespace {

// Linear between neighbours, of sorted values.
double quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

// How many values may be cut off at each end so that the rest still holds the median in 95 % of all
// cases: the largest k with P(Binomial(n, 1/2) < k) <= 2.5 %.
std::size_t cut(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));
  double below = 0;
  std::size_t k = 0;
  while (k < n / 2) {
    below += probability;
    if (below > 0.025) break;
    ++k;
    probability *= static_cast<double>(n - k + 1) / static_cast<double>(k);
  }
  return k;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

double spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
}

Estimate estimate(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto n = values.size();
  // k values may lie outside on each side, so the interval begins at the k-th smallest.
  const auto k = cut(n);
  const auto first = k == 0 ? 0 : k - 1;
  return {quantile(values, 0.5), values[first], values[n - 1 - first], static_cast<int>(n)};
}

Estimate difference_of_pairs(std::span<const double> a, std::span<const double> b, double unit) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    differences.push_back((a[i] - b[i]) / unit);
  return estimate(std::move(differences));
}

Estimate ratio_of_pairs(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  return estimate(std::move(ratios));
}

}  // namespace ferry::cli
