// Limit: one process makes the tensor and reads it. Nothing moves but what the caches move.
#include "bench/limits/round.h"

namespace limits {
namespace {

void make_and_read(std::span<std::byte> tensor, const Run& run) {
  static std::uint64_t round = 0;
  run.produce ? produce(tensor, ++round) : stamp(tensor, ++round);
  const std::span<const std::byte> piece = tensor;
  const auto result = read_through(std::span(&piece, 1), run.touch);
  asm volatile("" ::"r"(result));  // it is used
}

}  // namespace
}  // namespace limits

int main() {
  return limits::serve({.name = "one-process",
                        .what = "made and read by one process",
                        .alone = limits::make_and_read});
}
