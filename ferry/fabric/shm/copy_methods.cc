#include <algorithm>

#include "ferry/fabric/shm/copy_methods_internal.h"

namespace ferry::fabric::shm {

namespace {
constexpr auto kAnyOrder = std::memory_order_relaxed;
// How often the slower way is tried: it may have become the faster one. Seldom where it is far
// behind.
constexpr std::uint32_t kTryEvery = 64;
constexpr std::uint32_t kTrySeldom = 256;
constexpr std::uint32_t kFirst =
    8;  // copies by turns, before either is called slow: the first are cold
}  // namespace

CopyMethods::Method CopyMethods::choose(std::uint64_t length) {
  if (length < kLeast || kernel_refused_.load(kAnyOrder)) return Method::kRing;
  Class& mine = class_of(length);
  auto ring = mine.cost[0].load(kAnyOrder);
  auto kernel = mine.cost[1].load(kAnyOrder);
  auto turn = mine.chosen.load(kAnyOrder) + 1;
  mine.chosen.store(turn, kAnyOrder);
  if (turn <= kFirst || ring == 0 || kernel == 0)
    return turn % 2 == 0 ? Method::kKernel : Method::kRing;
  auto better = ring <= kernel ? Method::kRing : Method::kKernel;
  auto other = ring <= kernel ? Method::kKernel : Method::kRing;
  auto every = std::max(ring, kernel) > 2 * std::min(ring, kernel) ? kTrySeldom : kTryEvery;
  return turn % every == 0 ? other : better;
}

void CopyMethods::took(Method way, std::uint64_t length, std::int64_t ns) {
  if (length < kLeast || ns < 0) return;
  auto& cost = class_of(length).cost[static_cast<std::size_t>(way)];
  auto before = cost.load(kAnyOrder);
  auto now = std::max<std::uint64_t>(static_cast<std::uint64_t>(ns) * 1000 / length, 1);
  // What it did once it can do again; what is slow once may be chance.
  if (before != 0 && now > before) now = (7 * before + std::min(now, 4 * before)) / 8;
  cost.store(now, kAnyOrder);
}

}  // namespace ferry::fabric::shm
