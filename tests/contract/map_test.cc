#include <atomic>
#include <cstring>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class MapInPlace : public ContractTest {};

TEST_F(MapInPlace, ShowsThePeersMemoryWherePossible) {
  open();
  auto piece = make_piece(b(), 100'000);
  stamp(piece.bytes(), 1);
  auto mapped = ab().map(piece.remote);
  if (!ab().capabilities().maps_peer) {
    EXPECT_EQ(code_of(mapped), Code::kUnimplemented);
    return;
  }
  ASSERT_TRUE(mapped) << mapped.error().to_string();
  ASSERT_EQ(mapped->size(), piece.bytes().size());
  EXPECT_TRUE(stamped(*mapped, 1));
  stamp(*mapped, 2);
  EXPECT_TRUE(stamped(piece.bytes(), 2));
  stamp(piece.bytes(), 3);
  EXPECT_TRUE(stamped(*mapped, 3));
}

TEST_F(MapInPlace, NeedsAGrant) {
  open();
  if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  auto piece = make_piece(b(), 100);
  auto forged = piece.remote;
  forged.key ^= 0x1111'0000'0000'0000ULL;
  EXPECT_EQ(code_of(ab().map(forged)), Code::kNotFound);
  must(b().revoke(piece.remote, soon()));
  EXPECT_EQ(code_of(ab().map(piece.remote)), Code::kFailedPrecondition);
}

TEST_F(MapInPlace, AForgedLengthShowsNoMoreThanWasGranted) {
  open();
  if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  auto piece = make_piece(b(), 100);
  auto forged = piece.remote;
  forged.length = 1UL << 30;
  auto mapped = ab().map(forged);
  if (mapped) {
    EXPECT_EQ(mapped->size(), 100U);
  } else {
    EXPECT_EQ(mapped.error().code(), Code::kOutOfRange);
  }
  ab().close();
}

TEST_F(MapInPlace, WritesThroughTheMapAndThroughTheChannelMeet) {
  open();
  if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  auto piece = make_piece(b(), 4096);
  auto flag = make_piece(b(), 8);
  auto mapped = must(ab().map(piece.remote));
  for (int i = 1; i <= rounds(200); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    stamp(mapped, round);  // in place: nothing is copied
    auto sent = ab().write_flagged({}, piece.remote, flag.remote, round);
    must(ba().wait_flag(flag.data(), round, soon()));
    ASSERT_TRUE(stamped(piece.bytes(), round));
    must(sent.wait());
  }
}

// What a peer may still touch is not given to anybody else: its memory stays until the peer let go.
TEST_F(MapInPlace, MappedMemoryIsNotReusedWhileMapped) {
  open();
  if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  std::byte* address = nullptr;
  std::span<std::byte> mapped;
  {
    auto piece = make_piece(b(), 50'000);
    address = piece.data();
    mapped = must(ab().map(piece.remote));
  }
  auto next = make_piece(b(), 50'000);
  stamp(mapped, 5);
  for (auto byte : next.bytes()) ASSERT_EQ(byte, std::byte{0});
  EXPECT_NE(next.data(), address);
  ab().close();
  ba().close();
}

}  // namespace
}  // namespace ferry::contract
