// Limit: private memory on both ends. The giver copies cache-sized chunks into a small shared ring
// while the taker copies the chunk before out of it.
#include <algorithm>
#include <cstring>

#include "bench/limits/shm.h"

namespace limits {
namespace {

// Together more than a core's own cache, chosen by trial (docs/design/benchmarks.md): smaller rings
// were slower, probably because lines had to come from the other core.
constexpr std::size_t kSlots = 32;
constexpr std::size_t kMaxChunk = 64 * 1024;

class Pipeline : public ShmPair {
 public:
  using ShmPair::ShmPair;

  void open(std::uint64_t bytes) override {
    memory_ = Memory(bytes);
    ring_ = room(0, kSlots * kMaxChunk);
    // A quarter at a time where the tensor is small, so that the two copies still overlap.
    chunk_ = std::clamp<std::size_t>(bytes / 4 / 4096 * 4096, 4096, kMaxChunk);
    chunks_ = static_cast<std::uint32_t>((bytes + chunk_ - 1) / chunk_);
    if (link_.side() == Side::kGiver) reset_flags();
    fault_in(ring_);
    link_.meet();
  }
  void close() override { memory_ = Memory(); }
  std::span<std::byte> source() override { return memory_.bytes(); }

  void give(std::uint32_t round) override {
    const auto before = (round - 1) * chunks_;
    for (std::uint32_t i = 0; i < chunks_; ++i) {
      // Slots are free again once the taker has copied the chunk that was there.
      await_passed(flags_.half_given, before + i + 1 - kSlots);
      const auto part = chunk(i);
      std::memcpy(slot(before + i), part.data(), part.size());
      link_.raise(flags_.given, before + i + 1, sleep_);
    }
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    const auto before = (round - 1) * chunks_;
    for (std::uint32_t i = 0; i < chunks_; ++i) {
      await_passed(flags_.given, before + i + 1);
      const auto part = chunk(i);
      std::memcpy(part.data(), slot(before + i), part.size());
      link_.raise(flags_.half_given, before + i + 1, sleep_);
    }
    return taken(memory_.bytes());
  }

 private:
  std::span<std::byte> chunk(std::uint32_t index) const {
    const auto all = memory_.bytes();
    const auto at = std::size_t{index} * chunk_;
    return all.subspan(at, std::min(chunk_, all.size() - at));
  }
  std::byte* slot(std::uint32_t count) const { return ring_.data() + count % kSlots * kMaxChunk; }

  // Until the count has reached `target`; counts wrap.
  void await_passed(Flag& flag, std::uint32_t target) {
    link_.await_until(flag, sleep_, [target](std::uint32_t seen) {
      return static_cast<std::int32_t>(seen - target) >= 0;
    });
  }

  Memory memory_;
  std::span<std::byte> ring_;
  std::size_t chunk_ = 0;
  std::uint32_t chunks_ = 0;
};

}  // namespace
}  // namespace limits

int main() {
  return limits::serve(
      {.name = "shm-private",
       .what = "private memory on both ends, pipelined through a shared ring",
       .shared_bytes = limits::ShmPair::shared_for(1),
       .make = [](limits::Link& link) { return std::make_unique<limits::Pipeline>(link); }});
}
