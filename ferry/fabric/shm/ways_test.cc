#include <gtest/gtest.h>

#include <array>

#include "ferry/fabric/shm/ways_internal.h"

namespace ferry::fabric::shm {
namespace {

using Way = Ways::Way;
constexpr std::uint64_t kMega = 1 << 20;

// How often each way is chosen if the copies take so many nanoseconds.
std::array<int, 2> play(Ways& ways, int copies, std::int64_t ring_ns, std::int64_t kernel_ns) {
  std::array<int, 2> chosen{};
  for (int i = 0; i < copies; ++i) {
    auto way = ways.choose(kMega);
    ++chosen[static_cast<std::size_t>(way)];
    ways.took(way, kMega, way == Way::kRing ? ring_ns : kernel_ns);
  }
  return chosen;
}

TEST(Ways, ShortCopiesGoThroughTheRing) {
  Ways ways;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ways.choose(Ways::kLeast - 1), Way::kRing);
}

TEST(Ways, BothAreTriedAndTheFasterStays) {
  Ways ways;
  auto chosen = play(ways, 1000, 100'000, 50'000);
  EXPECT_GT(chosen[0], 0);
  EXPECT_GT(chosen[1], 950);
}

TEST(Ways, TheFasterMayChange) {
  Ways ways;
  play(ways, 1000, 100'000, 50'000);
  play(ways, 4000, 40'000, 120'000);
  EXPECT_GT(play(ways, 1000, 40'000, 120'000)[0], 950);
}

TEST(Ways, OneSlowCopyChangesLittle) {
  Ways ways;
  play(ways, 1000, 100'000, 70'000);
  ways.took(Way::kKernel, kMega, 1'000'000'000);
  EXPECT_GT(play(ways, 200, 100'000, 70'000)[1], 100);
}

TEST(Ways, LengthsAreJudgedApart) {
  Ways ways;
  play(ways, 100, 100'000, 50'000);
  EXPECT_EQ(ways.choose(Ways::kLeast), Way::kRing);  // not measured yet
}

TEST(Ways, ARefusalIsFinal) {
  Ways ways;
  play(ways, 100, 100'000, 50'000);
  ways.refuse_kernel();
  EXPECT_EQ(play(ways, 1000, 100'000, 50'000)[1], 0);
}

}  // namespace
}  // namespace ferry::fabric::shm
