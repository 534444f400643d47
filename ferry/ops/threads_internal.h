#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "ferry/ops/threads.h"

namespace ferry::ops {

// Makes this thread's parallel regions, oneDNN's among them, as wide as set_threads() says. OpenMP
// keeps that number for each thread.
void use_threads();
void count_reorder(std::uint64_t bytes);

// Calls body(data, part) for part 0 to parts - 1, on as many threads, and waits for them.
void run_parts(void (*body)(void* data, unsigned part), void* data, unsigned parts);

// Less than so many elements are not worth waking a thread for.
constexpr std::size_t kGrain = 32768;

// Calls use(begin, end), or use(begin, end, part), for slices of 0 to n, in parallel where each has
// `grain` items or more. There are at most threads() parts.
template <class Use>
void parallel(std::size_t n, std::size_t grain, Use use) {
  const auto most = std::max<std::size_t>(1, n / std::max<std::size_t>(1, grain));
  struct Slices {
    Use& use;
    std::size_t n;
    unsigned parts;
    void run(unsigned part) const {
      const auto begin = n * part / parts;
      const auto end = n * (part + 1) / parts;
      if constexpr (std::is_invocable_v<Use&, std::size_t, std::size_t, unsigned>)
        use(begin, end, part);
      else
        use(begin, end);
    }
  } slices{use, n, static_cast<unsigned>(std::min<std::size_t>(threads(), most))};
  if (slices.parts <= 1) return slices.run(0);
  run_parts([](void* data, unsigned part) { static_cast<Slices*>(data)->run(part); }, &slices,
            slices.parts);
}

}  // namespace ferry::ops
