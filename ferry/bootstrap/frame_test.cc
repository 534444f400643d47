#include "ferry/bootstrap/frame.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ferry::bootstrap {
namespace {

std::vector<std::byte> filled(std::size_t size, int seed) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + seed);
  return out;
}

TEST(FrameTest, HasTheDocumentedBytes) {
  std::vector<std::byte> out;
  append_frame(out, 0x0102, 0x0304, filled(2, 9));
  const std::uint8_t expected[] = {2, 0, 0, 0, 2, 1, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 9, 16};
  ASSERT_EQ(out.size(), sizeof(expected));
  EXPECT_EQ(std::memcmp(out.data(), expected, sizeof(expected)), 0);
}

TEST(FrameTest, CutsAnyFragmentation) {
  std::vector<std::byte> stream;
  const std::size_t sizes[] = {0, 1, 15, 16, 17, 300};
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    append_frame(stream, static_cast<std::uint16_t>(i), 100 + i, filled(sizes[i], int(i)));
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    FrameReader reader;
    std::size_t seen = 0;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::span(stream).subspan(at, std::min(step, stream.size() - at)));
      while (auto frame = *reader.next()) {
        ASSERT_LT(seen, std::size(sizes));
        EXPECT_EQ(frame->type, seen);
        EXPECT_EQ(frame->id, 100 + seen);
        auto expected = filled(sizes[seen], int(seen));
        EXPECT_TRUE(std::equal(frame->payload.begin(), frame->payload.end(), expected.begin(),
                               expected.end()));
        ++seen;
      }
    }
    EXPECT_EQ(seen, std::size(sizes));
    EXPECT_EQ(reader.buffered(), 0u);
  }
}

TEST(FrameTest, TakesTheLargestPayload) {
  std::vector<std::byte> out;
  append_frame(out, 1, 1, filled(kMaxPayload, 0));
  FrameReader reader;
  reader.feed(out);
  auto frame = reader.next();
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->payload.size(), kMaxPayload);
}

TEST(FrameTest, HoldsOneUnfinishedFrameAndNoMemoryOfThoseBefore) {
  std::vector<std::byte> out;
  append_frame(out, 1, 1, filled(kMaxPayload, 0));
  FrameReader reader;
  for (int i = 0; i < 3; ++i) {
    reader.feed(std::span(out).first(out.size() - 1));
    ASSERT_FALSE(*reader.next());
    EXPECT_LE(reader.held(), 2 * out.size());
    reader.feed(std::span(out).last(1));
    ASSERT_TRUE(*reader.next());
  }
  std::vector<std::byte> small;
  append_frame(small, 1, 1, {});
  reader.feed(small);
  EXPECT_LE(reader.held(), 8192U);
}

TEST(FrameTest, RefusesOversizeAtTheHeaderForEver) {
  std::vector<std::byte> out;
  append_frame(out, 1, 1, {});
  out[0] = std::byte{1};
  out[1] = std::byte{0x40};  // 16 KiB + 1
  FrameReader reader;
  reader.feed(out);
  auto first = reader.next();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), Code::kInvalidArgument);
  std::vector<std::byte> sound;
  append_frame(sound, 1, 1, {});
  reader.feed(sound);
  EXPECT_FALSE(reader.next());
}

TEST(FrameTest, RefusesReservedBits) {
  std::vector<std::byte> out;
  append_frame(out, 1, 1, {});
  out[7] = std::byte{1};
  FrameReader reader;
  reader.feed(out);
  EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace ferry::bootstrap
