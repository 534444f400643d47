#pragma once

#include <span>
#include <vector>

namespace ferry::cli {

// Fewer values cannot give a 95 % interval.
inline constexpr int kLeastForInterval = 6;

// A median with the interval that holds the true median in 95 of 100 cases; the least and the
// greatest value where there are too few for one.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
  int count = 0;

  bool has_interval() const { return count >= kLeastForInterval; }
};

// 0 of nothing.
double median(std::vector<double> values);

// Half the distance between the quartiles: the usual distance from the median.
double spread(std::vector<double> values);

// The interval is between two order statistics, so nothing is assumed of the distribution. Of fewer
// than kLeastForInterval values it is all of them.
Estimate estimate(std::vector<double> values);

// The estimate of a[i] / b[i], for as many as both have. Entry i of both comes from one turn of the
// same run.
Estimate ratio_of_pairs(std::span<const double> a, std::span<const double> b);
// The same of (a[i] - b[i]) / unit.
Estimate difference_of_pairs(std::span<const double> a, std::span<const double> b, double unit);

}  // namespace ferry::cli
