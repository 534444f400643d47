#include <gtest/gtest.h>

#include <array>

#include "ferry/fabric/shm/copy_methods_internal.h"

namespace ferry::fabric::shm {
namespace {

using Method = CopyMethods::Method;
constexpr std::uint64_t kMega = 1 << 20;

// How often each way is chosen if the copies take so many nanoseconds.
std::array<int, 2> play(CopyMethods& methods, int copies, std::int64_t ring_ns,
                        std::int64_t kernel_ns) {
  std::array<int, 2> chosen{};
  for (int i = 0; i < copies; ++i) {
    auto way = methods.choose(kMega);
    ++chosen[static_cast<std::size_t>(way)];
    methods.took(way, kMega, way == Method::kRing ? ring_ns : kernel_ns);
  }
  return chosen;
}

TEST(CopyMethods, ShortCopiesGoThroughTheRing) {
  CopyMethods methods;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(methods.choose(CopyMethods::kLeast - 1), Method::kRing);
}

TEST(CopyMethods, BothAreTriedAndTheFasterStays) {
  CopyMethods methods;
  auto chosen = play(methods, 1000, 100'000, 50'000);
  EXPECT_GT(chosen[0], 0);
  EXPECT_GT(chosen[1], 950);
}

TEST(CopyMethods, TheFasterMayChange) {
  CopyMethods methods;
  play(methods, 1000, 100'000, 50'000);
  play(methods, 4000, 40'000, 120'000);
  EXPECT_GT(play(methods, 1000, 40'000, 120'000)[0], 950);
}

TEST(CopyMethods, OneSlowCopyChangesLittle) {
  CopyMethods methods;
  play(methods, 1000, 100'000, 70'000);
  methods.took(Method::kKernel, kMega, 1'000'000'000);
  EXPECT_GT(play(methods, 200, 100'000, 70'000)[1], 100);
}

TEST(CopyMethods, LengthsAreJudgedApart) {
  CopyMethods methods;
  play(methods, 100, 100'000, 50'000);
  EXPECT_EQ(methods.choose(CopyMethods::kLeast), Method::kRing);  // not measured yet
}

TEST(CopyMethods, ARefusalIsFinal) {
  CopyMethods methods;
  play(methods, 100, 100'000, 50'000);
  methods.refuse_kernel();
  EXPECT_EQ(play(methods, 1000, 100'000, 50'000)[1], 0);
}

}  // namespace
}  // namespace ferry::fabric::shm
