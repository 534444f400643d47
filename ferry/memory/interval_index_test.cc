#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "ferry/memory/interval_index_internal.h"

namespace ferry::memory {
namespace {

std::set<std::uint32_t> overlaps(const IntervalIndex& index, std::uintptr_t start,
                                 std::uintptr_t end) {
  std::set<std::uint32_t> found;
  index.visit_overlaps(start, end, [&](std::uint32_t id) {
    EXPECT_TRUE(found.insert(id).second);
    return false;
  });
  return found;
}

TEST(IntervalIndex, BordersDoNotOverlap) {
  IntervalIndex index(4);
  index.insert(100, 200, 1);
  index.insert(200, 300, 2);
  EXPECT_EQ(overlaps(index, 0, 100), (std::set<std::uint32_t>{}));
  EXPECT_EQ(overlaps(index, 199, 200), (std::set<std::uint32_t>{1}));
  EXPECT_EQ(overlaps(index, 199, 201), (std::set<std::uint32_t>{1, 2}));
  EXPECT_EQ(overlaps(index, 300, 400), (std::set<std::uint32_t>{}));
}

TEST(IntervalIndex, ALongIntervalIsSeenBehindManyShortOnes) {
  IntervalIndex index(12);
  index.insert(0, 1000, 0);
  for (std::uint32_t i = 1; i <= 10; ++i) index.insert(i * 10, i * 10 + 5, i);
  EXPECT_EQ(overlaps(index, 900, 901), (std::set<std::uint32_t>{0}));
  index.erase(0, 0);
  EXPECT_EQ(overlaps(index, 900, 901), (std::set<std::uint32_t>{}));
}

TEST(IntervalIndex, AgreesWithAPlainSearch) {
  std::mt19937 random(3);
  IntervalIndex index(64);
  std::map<std::uint32_t, std::pair<std::uintptr_t, std::uintptr_t>> model;
  for (std::uint32_t step = 0; step < 3000; ++step) {
    if (model.size() < 64 && random() % 2 == 0) {
      std::uintptr_t start = random() % 500;
      std::uintptr_t end = start + 1 + random() % 100;
      index.insert(start, end, step);
      model[step] = {start, end};
    } else if (!model.empty()) {
      auto victim = std::next(model.begin(), random() % std::ptrdiff_t(model.size()));
      index.erase(victim->second.first, victim->first);
      model.erase(victim);
    }
    std::uintptr_t start = random() % 600;
    std::uintptr_t end = start + 1 + random() % 50;
    std::set<std::uint32_t> expected;
    for (auto& [id, range] : model)
      if (range.first < end && range.second > start) expected.insert(id);
    ASSERT_EQ(overlaps(index, start, end), expected);
  }
}

}  // namespace
}  // namespace ferry::memory
