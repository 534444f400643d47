#pragma once

#include <array>
#include <cstddef>

#include "ferry/base/clock.h"

namespace ferry::ps {

// The mean of the last few spans, and how far they are from it on average.
class MovingAverage {
 public:
  void add(Nanos span);
  bool empty() const { return count_ == 0; }
  Nanos mean() const;
  Nanos deviation() const;

 private:
  static constexpr std::size_t kWindow = 8;
  std::array<Nanos, kWindow> spans_{};
  std::size_t count_ = 0;  // of all that were added
};

// When in a step to pull, from how long computation, pushes and pulls took lately. No clock of its
// own: it is told.
class PullPace {
 public:
  void computed(Nanos span) { compute_.add(span); }
  void pushed(Nanos span) { push_.add(span); }
  void pulled(Nanos span) { pull_.add(span); }

  // How long after the beginning of a step a pull has to begin to be there, most likely, when the
  // computation ends. 0 while nothing is known.
  Nanos pull_after() const;
  // Whether a pull that waits for the push comes too late: then they go at the same time.
  bool push_is_in_the_way() const;

 private:
  MovingAverage compute_;
  MovingAverage push_;
  MovingAverage pull_;
};

}  // namespace ferry::ps
