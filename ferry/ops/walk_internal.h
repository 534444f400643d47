#pragma once

#include <array>

#include "ferry/ops/shaped_internal.h"
#include "ferry/ops/threads_internal.h"

namespace ferry::ops {

// A way through K arrays at once: loops, the outermost first, each with a number of iterations and,
// for each array, a step in elements. Loops that make one are joined, so that the innermost is as
// long as it can be.
template <std::size_t K>
class Walk {
 public:
  using Offsets = std::array<std::int64_t, K>;

  // A loop inside those before it.
  void add(std::int64_t iterations, const Offsets& steps) {
    if (iterations == 1) return;
    if (depth_ > 0 && continues(iterations, steps)) {
      iterations_[depth_ - 1] *= iterations;
      steps_[depth_ - 1] = steps;
      return;
    }
    iterations_[depth_] = iterations;
    steps_[depth_] = steps;
    ++depth_;
  }

  std::size_t depth() const { return depth_; }
  std::int64_t iterations(std::size_t loop) const { return iterations_[loop]; }
  const Offsets& steps(std::size_t loop) const { return steps_[loop]; }
  std::size_t inner() const {
    return depth_ == 0 ? 1 : static_cast<std::size_t>(iterations_[depth_ - 1]);
  }
  std::size_t outer() const {
    std::size_t count = 1;
    for (std::size_t loop = 0; loop + 1 < depth_; ++loop)
      count *= static_cast<std::size_t>(iterations_[loop]);
    return count;
  }

  // row(offsets, n, steps) for the iterations begin to end of the outer loops, taken as one.
  template <class Row>
  void rows(std::size_t begin, std::size_t end, Row row) const {
    const auto steps = depth_ == 0 ? Offsets{} : steps_[depth_ - 1];
    std::array<std::int64_t, tensor::Shape::kMaxRank + 1> at{};
    auto offsets = seek(begin, at);
    for (auto iteration = begin; iteration < end; ++iteration) {
      row(offsets, inner(), steps);
      for (auto loop = depth_ - 1; depth_ > 0 && loop-- > 0;) {
        move(offsets, loop, 1);
        if (++at[loop] < iterations_[loop]) break;
        move(offsets, loop, -iterations_[loop]);
        at[loop] = 0;
      }
    }
  }

 private:
  bool continues(std::int64_t iterations, const Offsets& steps) const {
    for (std::size_t k = 0; k < K; ++k)
      if (steps_[depth_ - 1][k] != iterations * steps[k]) return false;
    return true;
  }
  void move(Offsets& offsets, std::size_t loop, std::int64_t iterations) const {
    for (std::size_t k = 0; k < K; ++k) offsets[k] += iterations * steps_[loop][k];
  }
  template <class Indices>
  Offsets seek(std::size_t iteration, Indices& at) const {
    Offsets offsets{};
    for (auto loop = depth_ - 1; depth_ > 0 && loop-- > 0;) {
      const auto iterations = static_cast<std::size_t>(iterations_[loop]);
      if (iterations == 0) break;
      at[loop] = static_cast<std::int64_t>(iteration % iterations);
      iteration /= iterations;
      move(offsets, loop, at[loop]);
    }
    return offsets;
  }

  std::size_t depth_ = 0;
  std::array<std::int64_t, tensor::Shape::kMaxRank + 1> iterations_{};
  std::array<Offsets, tensor::Shape::kMaxRank + 1> steps_{};
};

// All rows in order.
template <std::size_t K, class Row>
void walk(const Walk<K>& way, Row row) {
  if (way.inner() > 0) way.rows(0, way.outer(), row);
}

// The same on several threads; no two rows may write to one place.
template <std::size_t K, class Row>
void walk_parallel(const Walk<K>& way, Row row) {
  if (way.inner() == 0 || way.outer() == 0) return;
  if (way.outer() > 1) {
    const auto grain = std::max<std::size_t>(1, kGrain / way.inner());
    return parallel(way.outer(), grain,
                    [&](std::size_t begin, std::size_t end) { way.rows(begin, end, row); });
  }
  const auto steps = way.depth() == 0 ? typename Walk<K>::Offsets{} : way.steps(way.depth() - 1);
  parallel(way.inner(), kGrain, [&](std::size_t begin, std::size_t end) {
    typename Walk<K>::Offsets offsets{};
    for (std::size_t k = 0; k < K; ++k) offsets[k] = static_cast<std::int64_t>(begin) * steps[k];
    row(offsets, end - begin, steps);
  });
}

using Steps = std::array<std::int64_t, tensor::Shape::kMaxRank>;

// How far it is from an element to the next along each axis.
Steps steps_of(const tensor::Shape& shape);
// The same for a tensor that is broadcast to a shape of `rank` dimensions: 0 where it repeats.
Steps broadcast_steps(const tensor::Shape& shape, std::size_t rank);

}  // namespace ferry::ops
