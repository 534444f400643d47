// Data path.
#include "ferry/base/waiting.h"
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
  auto bits =
      doorbell_.lanes.load(std::memory_order_acquire) | active_.load(std::memory_order_acquire);
  int work = 0;
  for (; bits != 0; bits &= bits - 1) {
    auto bit = static_cast<std::uint32_t>(__builtin_ctzll(bits));
    int done = progress_bit_on_loop(bit);
    work += done;
    if (done != 0) {
      idle_[bit] = 0;
    } else if (++idle_[bit] >= waiting::kDoorbellLooks) {
      rest_on_loop(bit);
    }
  }
  return work;
}

int ShmSource::progress_bit_on_loop(std::uint32_t bit) {
  int work = 0;
  for (ShmLane* lane : lanes_[bit]) work += lane->progress_on_loop();
  return work;
}

// Clears the bit, then looks once more: a peer that found it set did not set it again.
void ShmSource::rest_on_loop(std::uint32_t bit) {
  idle_[bit] = 0;
  auto mask = ~(std::uint64_t{1} << bit);
  doorbell_.lanes.fetch_and(mask);
  active_.fetch_and(mask);
  bool busy = progress_bit_on_loop(bit) != 0;
  for (ShmLane* lane : lanes_[bit]) busy = lane->wants_progress() || busy;
  if (busy) activate(bit);
}

void ShmSource::tick_on_loop(std::int64_t now) {
  for (auto& lanes : lanes_)
    for (ShmLane* lane : lanes) lane->tick_on_loop(now);
}

}  // namespace ferry::fabric::shm
