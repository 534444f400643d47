#include <gtest/gtest.h>

#include <algorithm>

#include "ferry/ps/scheduler/block_placement_internal.h"

namespace ferry::ps {
namespace {

tensor::Spec spec_of(std::initializer_list<std::int64_t> dims) {
  return {tensor::ElementType::kF32, *tensor::Shape::of(dims)};
}

TEST(BlockPlacement, ShardsDifferByLessThanABlock) {
  BlockPlacement placement(5);
  for (std::uint64_t bytes : {100ULL, 4096ULL, 1'000'000ULL, 4097ULL, 12'345'678ULL, 4ULL}) {
    const auto runs = placement.place(bytes, 4096);
    std::uint64_t offset = 0;
    for (const auto& run : runs) {
      EXPECT_EQ(run.offset, offset);
      EXPECT_EQ(run.offset % 4096, 0U);
      offset += run.bytes;
    }
    EXPECT_EQ(offset, bytes);
    const auto [least, most] =
        std::minmax_element(placement.loads().begin(), placement.loads().end());
    EXPECT_LE(*most - *least, 2 * 4096U) << bytes;
  }
}

TEST(BlockPlacement, BlocksHoldWholeRowsAndBeginAtALine) {
  EXPECT_EQ(BlockPlacement::block_bytes(spec_of({1000}), 262144), 262144U);
  const auto bytes = BlockPlacement::block_bytes(spec_of({1000, 33}), 16896);
  EXPECT_EQ(bytes % (33 * 4), 0U);
  EXPECT_EQ(bytes % 64, 0U);
  // A row that does not fit is cut.
  EXPECT_EQ(BlockPlacement::block_bytes(spec_of({3, 1'000'000}), 4096), 4096U);
}

TEST(BlockPlacement, WhatIsTakenBackIsFree) {
  BlockPlacement placement(3);
  const auto runs = placement.place(100'000, 4096);
  placement.take_back(runs);
  EXPECT_EQ(placement.loads(), std::vector<std::uint64_t>(3));
}

}  // namespace
}  // namespace ferry::ps
