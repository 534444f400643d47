#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ferry/memory/suballocator_internal.h"

namespace ferry::memory {
namespace {

std::uint32_t add(Suballocator& pieces, std::uint32_t granules) {
  return pieces.add_region(granules, Suballocator::make_table(granules).value());
}

TEST(Suballocator, MergesNeighboursOnBothSides) {
  Suballocator pieces;
  auto region = add(pieces, 300);
  auto a = pieces.allocate(100).value();
  auto b = pieces.allocate(100).value();
  auto c = pieces.allocate(100).value();
  EXPECT_FALSE(pieces.allocate(1));
  EXPECT_TRUE(pieces.free(a, 100));
  EXPECT_TRUE(pieces.free(c, 100));
  EXPECT_EQ(pieces.largest_free(), 100u);
  EXPECT_EQ(pieces.total_free(), 200u);
  EXPECT_TRUE(pieces.free(b, 100));
  EXPECT_EQ(pieces.largest_free(), 300u);
  EXPECT_TRUE(pieces.empty(region));
}

TEST(Suballocator, FindsTheExactPieceWhoseClassHoldsSmallerOnes) {
  Suballocator pieces;
  add(pieces, 1001);  // no border of a class
  EXPECT_TRUE(pieces.allocate(1001));
}

TEST(Suballocator, RefusesForeignAndDoubleFrees) {
  Suballocator pieces;
  auto region = add(pieces, 1000);
  auto a = pieces.allocate(10).value();
  auto b = pieces.allocate(10).value();
  EXPECT_FALSE(pieces.free({region, a.offset + 1}, 10));  // inside
  EXPECT_FALSE(pieces.free(a, 11));                       // another size
  EXPECT_FALSE(pieces.free({region, 1000}, 10));          // beyond
  EXPECT_FALSE(pieces.free({region + 1, 0}, 10));         // no such region
  EXPECT_FALSE(pieces.free({region, 20}, 980));           // free already
  EXPECT_TRUE(pieces.free(a, 10));
  EXPECT_FALSE(pieces.free(a, 10));
  EXPECT_TRUE(pieces.free(b, 10));
}

TEST(Suballocator, RegionsComeAndGo) {
  Suballocator pieces;
  auto first = add(pieces, 100);
  auto second = add(pieces, 100);
  auto a = pieces.allocate_in(second, 100);
  EXPECT_FALSE(pieces.empty(second));
  pieces.remove_region(first);
  EXPECT_FALSE(pieces.allocate(1));
  EXPECT_EQ(add(pieces, 50), first);
  EXPECT_TRUE(pieces.free(a, 100));
  EXPECT_EQ(pieces.total_free(), 150u);
}

// Against a plain map of what is handed out: no overlap, no loss, and all merged at the end.
TEST(Suballocator, RandomOperationsAgreeWithAModel) {
  std::mt19937 random(7);
  Suballocator pieces;
  constexpr std::uint32_t kRegion = 1 << 16;
  for (int i = 0; i < 3; ++i) add(pieces, kRegion);
  std::map<std::uint64_t, std::uint32_t> model;  // region and offset -> size
  std::uint64_t used = 0;
  for (int step = 0; step < 50'000; ++step) {
    if (random() % 2 == 0) {
      std::uint32_t size = 1 + random() % (1u << random() % 13);
      auto piece = pieces.allocate(size);
      if (!piece) continue;
      std::uint64_t key = std::uint64_t{piece->region} * kRegion + piece->offset;
      ASSERT_LE(piece->offset + size, kRegion);
      auto after = model.lower_bound(key);
      ASSERT_TRUE(after == model.end() || after->first >= key + size);
      ASSERT_TRUE(after == model.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= key);
      model[key] = size;
      used += size;
    } else if (!model.empty()) {
      auto victim = model.lower_bound(random() % (3 * kRegion));
      if (victim == model.end()) victim = model.begin();
      Suballocator::Piece piece{std::uint32_t(victim->first / kRegion),
                                std::uint32_t(victim->first % kRegion)};
      ASSERT_TRUE(pieces.free(piece, victim->second));
      used -= victim->second;
      model.erase(victim);
    }
    ASSERT_EQ(pieces.total_free(), 3 * kRegion - used);
  }
  for (auto [key, size] : model)
    ASSERT_TRUE(pieces.free({std::uint32_t(key / kRegion), std::uint32_t(key % kRegion)}, size));
  for (std::uint32_t region = 0; region < 3; ++region) EXPECT_TRUE(pieces.empty(region));
}

}  // namespace
}  // namespace ferry::memory
