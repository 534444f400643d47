#include <gtest/gtest.h>

#include "ferry/fabric/verbs/send_ring_internal.h"

namespace ferry::fabric::verbs {
namespace {

SendSlot bind(std::uint64_t key) {
  SendSlot slot;
  slot.kind = SendSlot::Kind::kBind;
  slot.key = key;
  return slot;
}

std::vector<std::uint64_t> retire(SendRing& ring, std::uint64_t number, bool expect = true) {
  std::vector<std::uint64_t> keys;
  EXPECT_EQ(ring.retire(number, [&](const SendSlot& s, std::uint64_t) { keys.push_back(s.key); }),
            expect);
  return keys;
}

TEST(VerbsSendRing, OneCompletionRetiresAllBefore) {
  SendRing ring(8);
  for (std::uint64_t key = 10; key < 15; ++key) ring.push(bind(key));
  EXPECT_EQ(ring.room(), 3u);
  EXPECT_EQ(retire(ring, 2), (std::vector<std::uint64_t>{10, 11, 12}));
  EXPECT_EQ(ring.room(), 6u);
  EXPECT_FALSE(ring.empty());
  EXPECT_EQ(retire(ring, 4), (std::vector<std::uint64_t>{13, 14}));
  EXPECT_TRUE(ring.empty());
}

TEST(VerbsSendRing, CompletionsOfNothingAreRefused) {
  SendRing ring(8);
  retire(ring, 0, false);
  ring.push(bind(1));
  retire(ring, 1, false);
  retire(ring, ~std::uint64_t{0}, false);
  EXPECT_EQ(retire(ring, 0).size(), 1u);
  retire(ring, 0, false);
}

TEST(VerbsSendRing, SurvivesManyTurnsFull) {
  SendRing ring(8);
  std::uint64_t key = 0;
  while (ring.room() > 0) ring.push(bind(key++));
  for (int turn = 0; turn < 1000; ++turn) {
    auto gone = retire(ring, key - 8 + 3);
    EXPECT_EQ(gone.size(), 4u);
    EXPECT_EQ(gone.front(), key - 8);
    while (ring.room() > 0) ring.push(bind(key++));
  }
  std::uint64_t oldest = key - 8;
  ring.walk([&](const SendSlot& slot) { EXPECT_EQ(slot.key, oldest++); });
  EXPECT_EQ(oldest, key);
}

TEST(VerbsSendRing, SomeRequestAsksForACompletionInEveryQuarter) {
  SendRing ring(16);
  int since = 0;
  for (int i = 0; i < 100; ++i) {
    since = ring.must_signal() ? 0 : since + 1;
    EXPECT_LT(since, 4);
    retire(ring, ring.push(bind(0)));
  }
}

TEST(VerbsSegments, CoverTheTransferOnce) {
  constexpr std::uint64_t kLimit = 8 << 20;
  for (std::uint64_t total : {std::uint64_t{0}, std::uint64_t{1}, kLimit - 1, kLimit, kLimit + 1,
                              3 * kLimit, std::uint64_t{5} << 30}) {
    std::uint64_t at = 0;
    int count = 0;
    for (;;) {
      auto piece = segment_at(at, total, kLimit);
      EXPECT_EQ(piece.offset, at);
      EXPECT_LE(piece.length, kLimit);
      at += piece.length;
      ++count;
      if (piece.last) break;
      ASSERT_GT(piece.length, 0u);
    }
    EXPECT_EQ(at, total);
    EXPECT_EQ(count, total == 0 ? 1 : static_cast<int>((total + kLimit - 1) / kLimit));
  }
}

}  // namespace
}  // namespace ferry::fabric::verbs
