#include <algorithm>
#include <span>

#include "ferry/ps/pull_pace_internal.h"

namespace ferry::ps {
namespace {

// A pull that is late makes the computation wait; one that is early costs as much staleness. So two
// deviations of each, as a span of twice the mean deviation holds nearly all there is.
constexpr int kCaution = 2;

}  // namespace

void MovingAverage::add(Nanos span) { spans_[count_++ % kWindow] = span; }

Nanos MovingAverage::mean() const {
  const auto known = std::span(spans_).first(std::min(count_, kWindow));
  Nanos sum{};
  for (const auto span : known) sum += span;
  return known.empty() ? sum : sum / static_cast<std::int64_t>(known.size());
}

Nanos MovingAverage::deviation() const {
  const auto known = std::span(spans_).first(std::min(count_, kWindow));
  const auto middle = mean();
  Nanos sum{};
  for (const auto span : known) sum += std::chrono::abs(span - middle);
  return known.empty() ? sum : sum / static_cast<std::int64_t>(known.size());
}

Nanos PullPace::pull_after() const {
  if (compute_.empty() || pull_.empty()) return Nanos(0);
  const auto end = compute_.mean() - kCaution * compute_.deviation();
  const auto need = pull_.mean() + kCaution * pull_.deviation();
  return std::max(Nanos(0), end - need);
}

bool PullPace::push_is_in_the_way() const {
  return !compute_.empty() && push_.mean() + pull_.mean() > compute_.mean();
}

}  // namespace ferry::ps
