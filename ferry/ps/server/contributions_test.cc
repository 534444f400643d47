#include <gtest/gtest.h>

#include <array>

#include "ferry/ps/server/contributions_internal.h"

namespace ferry::ps {
namespace {

// Two blocks of two rows of two floats.
constexpr std::uint64_t kRowBytes = 2 * sizeof(float);
constexpr PartLayout kTwoBlocks{.bytes = 8 * sizeof(float), .block_bytes = 4 * sizeof(float)};

Contributions two_blocks() { return {kTwoBlocks, tensor::ElementType::kF32, kRowBytes}; }

const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::vector<float> values_at(const float* sum, std::size_t count) { return {sum, sum + count}; }

TEST(ContributionsTest, AreInTheOrderOfRanksWhoeverCameFirst) {
  auto open = two_blocks();
  const std::vector<float> some(4, 1.0F);
  for (const std::uint32_t rank : {2U, 0U, 1U}) open.add(1, {rank, bytes_of(some)});
  const auto sources = open.unfolded(1);
  ASSERT_EQ(sources.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(sources[rank].rank, rank);
  EXPECT_TRUE(open.has(1, 2));
  EXPECT_FALSE(open.has(0, 2));
  EXPECT_EQ(open.sum(1), nullptr);  // nothing is folded
  ASSERT_EQ(open.touched().size(), 1U);
  EXPECT_EQ(open.touched()[0], 1U);
}

TEST(ContributionsTest, FoldedOnesAreInTheSumAndTheRestFollows) {
  auto open = two_blocks();
  std::vector<float> first{1, 2, 3, 4};
  const std::vector<float> second{10, 20, 30, 40};
  open.add(0, {0, bytes_of(first)});
  open.add(0, {1, bytes_of(second)});
  open.fold(0, 0);
  first.assign(4, 99);  // its memory is free again
  EXPECT_TRUE(open.has_folded(0));
  EXPECT_FALSE(open.has_folded(1));
  EXPECT_TRUE(open.unfolded(0).empty());
  EXPECT_EQ(values_at(open.sum(0), 4), (std::vector<float>{11, 22, 33, 44}));
}

TEST(ContributionsTest, NarrowTypesAreAddedUpInF32) {
  struct Case {
    tensor::ElementType type;
    float large;  // one more is no value of the type
  };
  for (const auto& each :
       {Case{tensor::ElementType::kF16, 2048}, {tensor::ElementType::kBf16, 256}}) {
    const PartLayout block{.bytes = 2 * sizeof(std::uint16_t),
                           .block_bytes = 2 * sizeof(std::uint16_t)};
    Contributions open(block, each.type, 2 * sizeof(std::uint16_t));
    const float values[][2] = {{each.large, 1}, {1, -2}, {1, 3}};
    std::array<std::array<std::uint16_t, 2>, 3> narrowed{};
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto* bytes = reinterpret_cast<std::byte*>(narrowed[rank].data());
      narrow(each.type, values[rank], bytes, 2);
      open.add(0, {rank, bytes});
    }
    for (std::uint32_t rank = 0; rank < 3; ++rank) open.fold(0, rank);
    EXPECT_EQ(values_at(open.sum(0), 2), (std::vector<float>{each.large + 2, 2}))
        << tensor::name_of(each.type);
  }
}

TEST(ContributionsTest, OfADroppedWorkerOnlyWhatIsFoldedStays) {
  auto open = two_blocks();
  const std::vector<float> ones(4, 1.0F);
  open.add(0, {0, bytes_of(ones)});
  open.add(1, {0, bytes_of(ones)});
  open.fold(0, 0);
  open.drop(0);
  EXPECT_TRUE(open.has(0, 0));
  EXPECT_FALSE(open.has(1, 0));
  EXPECT_EQ(open.sum(1), nullptr);
}

TEST(ContributionsTest, RowsOfSeveralWorkersAreAddedUp) {
  auto open = two_blocks();
  const std::vector<std::uint64_t> keys{3, 0};
  const std::vector<float> values{1, 2, 3, 4};
  open.fold_rows({keys, bytes_of(values)}, 0);
  open.fold_rows({{keys.data(), 1}, bytes_of(values)}, 1);
  ASSERT_EQ(open.rows(0).size(), 1U);
  ASSERT_EQ(open.rows(1).size(), 1U);
  EXPECT_EQ(open.rows(1)[0], 3U);
  EXPECT_EQ(values_at(open.row_sum(3), 2), (std::vector<float>{2, 4}));
  EXPECT_EQ(values_at(open.row_sum(0), 2), (std::vector<float>{3, 4}));
}

TEST(ContributionsTest, RowsThatNobodyPushedAreZeroIfSomebodyPushesTheBlock) {
  auto open = two_blocks();
  const std::vector<float> old(4, 7.0F);
  open.add(0, {0, bytes_of(old)});  // the sums of a former step stay in memory
  open.fold(0, 0);
  open.clear();
  const std::vector<std::uint64_t> keys{1};
  const std::vector<float> row{1, 1};
  open.fold_rows({keys, bytes_of(row)}, 0);
  const std::vector<float> block{1, 2, 3, 4};
  open.add(0, {1, bytes_of(block)});
  EXPECT_TRUE(open.rows(0).empty());
  EXPECT_EQ(values_at(open.sum(0), 4), (std::vector<float>{1, 2, 4, 5}));
}

TEST(ContributionsTest, NothingIsLeftWhenTheStepIsCleared) {
  auto open = two_blocks();
  const std::vector<float> ones(4, 1.0F);
  open.add(0, {0, bytes_of(ones)});
  const std::vector<std::uint64_t> keys{2};
  open.fold_rows({keys, bytes_of(ones)}, 0);
  EXPECT_FALSE(open.empty());
  open.clear();
  EXPECT_TRUE(open.empty());
  EXPECT_TRUE(open.rows(1).empty());
  open.fold_rows({keys, bytes_of(ones)}, 0);
  EXPECT_EQ(values_at(open.row_sum(2), 2), (std::vector<float>{1, 1}));  // not two
}

}  // namespace
}  // namespace ferry::ps
