// Data path.
#include "ferry/fabric/shm/lane_internal.h"
#include "ferry/fabric/shm/source_internal.h"

namespace ferry::fabric::shm {

std::uint32_t ShmSource::add(ShmLane* lane) {
  return loop_.with_token([&] {
    auto index = next_index_++;
    lanes_[index % kBits].push_back(lane);
    return index;
  });
}

void ShmSource::remove(ShmLane* lane) {
  loop_.with_token([&] { std::erase(lanes_[lane->index() % kBits], lane); });
}

int ShmSource::progress_lanes_on_loop() {
  auto bits = active_.load(std::memory_order_acquire);
  if (doorbell_.lanes.load(std::memory_order_relaxed) != 0)
    bits |= doorbell_.lanes.exchange(0, std::memory_order_acquire);
  int work = 0;
  for (; bits != 0; bits &= bits - 1) {
    auto bit = static_cast<std::uint32_t>(__builtin_ctzll(bits));
    bool more = false;
    // By index: a callback may not change the list, since it does not hold the token twice.
    for (ShmLane* lane : lanes_[bit]) {
      work += lane->progress_on_loop();
      more = lane->wants_progress() || more;
    }
    if (more) {
      activate(bit);
      continue;
    }
    active_.fetch_and(~(std::uint64_t{1} << bit));
    for (ShmLane* lane : lanes_[bit])
      if (lane->wants_progress()) activate(bit);
  }
  return work;
}

void ShmSource::tick_on_loop(std::int64_t now) {
  for (auto& lanes : lanes_)
    for (ShmLane* lane : lanes) lane->tick_on_loop(now);
}

}  // namespace ferry::fabric::shm
