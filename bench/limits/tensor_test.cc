#include "bench/limits/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace limits {
namespace {

using Bytes = std::vector<std::byte>;

Bytes stamped(std::size_t bytes, std::uint64_t rounds) {
  Bytes tensor(bytes);
  fill(tensor);
  for (std::uint64_t round = 1; round <= rounds; ++round) stamp(tensor, round);
  return tensor;
}

// Cut into pieces of one length, the last one shorter.
std::vector<std::span<const std::byte>> cut(const Bytes& tensor, std::size_t length) {
  std::vector<std::span<const std::byte>> pieces;
  for (std::size_t at = 0; at < tensor.size(); at += length)
    pieces.push_back(std::span(tensor).subspan(at, std::min(length, tensor.size() - at)));
  return pieces;
}

class EverySize : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EverySize, WhatWasStampedIsRight) {
  for (std::uint64_t rounds : {0, 1, 2, 5, 40}) {
    const auto tensor = stamped(GetParam(), rounds);
    for (std::size_t length : {tensor.size(), std::size_t{13}, std::size_t{4097}}) {
      const auto pieces = cut(tensor, length);
      EXPECT_EQ(wrong_bytes(pieces, tensor.size(), rounds), 0u) << rounds << " " << length;
      const auto missing = rounds == 0 ? 0 : missing_stamps(pieces, tensor.size(), rounds);
      EXPECT_EQ(missing, 0u);
    }
  }
}

TEST_P(EverySize, LastRoundsTensorIsNoticed) {
  const auto tensor = stamped(GetParam(), 6);
  const auto pieces = cut(tensor, tensor.size());
  EXPECT_GT(missing_stamps(pieces, tensor.size(), 7), 0u);
  EXPECT_GT(wrong_bytes(pieces, tensor.size(), 7), 0u);
}

TEST_P(EverySize, EachWrongByteIsNoticed) {
  auto tensor = stamped(GetParam(), 3);
  for (std::size_t at = 0; at < tensor.size(); at += 1 + tensor.size() / 50) {
    tensor[at] ^= std::byte{1};
    EXPECT_EQ(wrong_bytes(cut(tensor, tensor.size()), tensor.size(), 3), 1u) << at;
    tensor[at] ^= std::byte{1};
  }
}

TEST_P(EverySize, MissingBytesAreWrong) {
  const auto tensor = stamped(GetParam(), 3);
  const std::array<std::span<const std::byte>, 1> part = {
      std::span(tensor).first(tensor.size() - 1)};
  EXPECT_EQ(wrong_bytes(part, tensor.size(), 3), 1u);
}

TEST_P(EverySize, AProducedTensorIsThatOfItsRound) {
  for (std::uint64_t round : {1UL, 2UL, 7UL, 1000UL}) {
    auto tensor = stamped(GetParam(), 3);
    produce(tensor, round);
    const auto pieces = cut(tensor, tensor.size());
    EXPECT_EQ(missing_stamps(pieces, tensor.size(), round), 0u);
    EXPECT_EQ(wrong_bytes(pieces, tensor.size(), round, true), 0u) << round;
    EXPECT_GT(wrong_bytes(pieces, tensor.size(), round + 1, true), 0u) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Tensor, EverySize,
                         ::testing::Values(2, 8, 12, 16, 64, 100, 4096, 4097, 4104, 8192, 65536,
                                           100'003));

TEST(Tensor, ReadingGoesThroughEveryPageOrLine) {
  const Bytes ones(3 * kPage, std::byte{1});
  const auto pieces = cut(ones, ones.size());
  EXPECT_EQ(read_through(pieces, Touch::kPages), 3u);
  EXPECT_EQ(read_through(pieces, Touch::kAll), 3 * kPage / 64 * 0x0101010101010101ULL);
  // The largest float wins, wherever it is; what is left over counts too.
  Bytes floats(1000 * sizeof(float) + 3);
  const float most = 7;
  for (std::size_t at : {0UL, 4UL, 1000UL, 3996UL}) {
    std::memcpy(floats.data() + at, &most, sizeof most);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &most, sizeof bits);
    const auto found = read_through(cut(floats, floats.size()), Touch::kBytes);
    if (at < 3968) {
      EXPECT_EQ(found, bits) << at;
    }
    EXPECT_NE(found, 0u);
    std::memset(floats.data() + at, 0, sizeof most);
  }
}

}  // namespace
}  // namespace limits
