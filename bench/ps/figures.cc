#include "bench/ps/figures.h"

#include <algorithm>

namespace ferry::bench {

cli::Estimate PsFigure::ratio() const { return cli::ratio_of_pairs(ours, other); }

Outcome PsFigure::outcome() const {
  if (at_most) return outcome_of(ratio(), bound);
  // The other way round, so that smaller is better.
  return outcome_of(cli::ratio_of_pairs(other, ours), 1 / bound);
}

bool PsFigure::is_compared() const {
  return std::any_of(other.begin(), other.end(), [](double one) { return one != 1; });
}

std::string PsFigure::verdict() const {
  return skipped.empty() ? outcome_name(outcome()) : "not measured";
}

}  // namespace ferry::bench
