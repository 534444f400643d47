#include "ferry/bootstrap/codec.h"

#include <gtest/gtest.h>

namespace ferry::bootstrap {
namespace {

std::vector<std::byte> sample() {
  std::vector<std::byte> out;
  Encoder(out).u8(1).u16(0x0203).u32(0x04050607).u64(0x08090a0b0c0d0e0f).string("name").bytes({});
  return out;
}

TEST(CodecTest, IsLittleEndian) {
  std::vector<std::byte> out;
  Encoder(out).u8(1).u16(0x0203).u32(0x04050607).string("a");
  const std::vector<std::byte> expected = {
      std::byte{1}, std::byte{3}, std::byte{2}, std::byte{7}, std::byte{6}, std::byte{5},
      std::byte{4}, std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{'a'}};
  EXPECT_EQ(out, expected);
}

TEST(CodecTest, ReadsBackWhatWasWritten) {
  auto bytes = sample();
  Decoder in(bytes);
  EXPECT_EQ(in.u8(), 1);
  EXPECT_EQ(in.u16(), 0x0203);
  EXPECT_EQ(in.u32(), 0x04050607u);
  EXPECT_EQ(in.u64(), 0x08090a0b0c0d0e0fu);
  EXPECT_EQ(in.string(4), "name");
  EXPECT_TRUE(in.bytes(0).empty());
  EXPECT_TRUE(in.finish("sample"));
}

TEST(CodecTest, EveryTruncationIsNamed) {
  auto bytes = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Decoder in{std::span(bytes).first(size)};
    in.u8(), in.u16(), in.u32(), in.u64(), in.string(100), in.bytes(100);
    auto status = in.finish("sample");
    ASSERT_FALSE(status) << size;
    EXPECT_EQ(status.error().message(), "malformed sample: it ends too early");
  }
}

TEST(CodecTest, AfterAFailureEverythingIsEmpty) {
  auto bytes = sample();
  Decoder in(bytes);
  EXPECT_TRUE(in.raw(bytes.size() + 1).empty());
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_TRUE(in.string(100).empty());
  EXPECT_FALSE(in.ok());
}

TEST(CodecTest, HoldsLimits) {
  std::vector<std::byte> out;
  Encoder(out).string("four!");
  Decoder in(out);
  EXPECT_TRUE(in.string(4).empty());
  EXPECT_EQ(in.finish("x").error().message(), "malformed x: a field is longer than allowed");
  std::vector<std::byte> huge;
  Encoder(huge).u32(0xffffffff);
  Decoder hostile(huge);
  EXPECT_TRUE(hostile.bytes(std::size_t(-1)).empty());
  EXPECT_FALSE(hostile.ok());
}

TEST(CodecTest, LeftoverBytesAreAnError) {
  auto bytes = sample();
  Decoder in(bytes);
  in.u8();
  EXPECT_EQ(in.finish("x").error().message(), "malformed x: 26 bytes too many");
}

}  // namespace
}  // namespace ferry::bootstrap
