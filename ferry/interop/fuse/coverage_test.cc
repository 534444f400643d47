#include <gtest/gtest.h>

#include <random>

#include "ferry/interop/fuse/coverage_internal.h"

namespace ferry::interop {
namespace {

using Gaps = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TEST(Coverages, JoinWhatTouches) {
  Coverage written;
  EXPECT_TRUE(written.empty());
  EXPECT_EQ(written.gaps(10), (Gaps{{0, 10}}));
  written.add(2, 2);
  written.add(6, 2);
  EXPECT_EQ(written.gaps(10), (Gaps{{0, 2}, {4, 2}, {8, 2}}));
  written.add(4, 2);
  EXPECT_EQ(written.gaps(10), (Gaps{{0, 2}, {8, 2}}));
  written.add(0, 10);
  EXPECT_EQ(written.gaps(10), Gaps{});
  written.clear();
  EXPECT_TRUE(written.empty());
}

TEST(Coverages, EqualAPlainListOfBytes) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 200; ++turn) {
    Coverage written;
    std::vector<bool> plain(64);
    for (int range = 0; range < 12; ++range) {
      const auto offset = random() % 64;
      const auto length = random() % (64 - offset + 1);
      written.add(offset, length);
      for (auto at = offset; at < offset + length; ++at) plain[at] = true;
    }
    std::vector<bool> missing(64);
    for (const auto& [offset, length] : written.gaps(64)) {
      ASSERT_GT(length, 0U);
      for (auto at = offset; at < offset + length; ++at) missing[at] = true;
    }
    for (std::size_t at = 0; at < plain.size(); ++at) ASSERT_NE(plain[at], missing[at]) << at;
  }
}

}  // namespace
}  // namespace ferry::interop
