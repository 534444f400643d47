#include <gtest/gtest.h>

#include <cstddef>

#include "ferry/fabric/tcp/frame_internal.h"

namespace ferry::fabric::tcp {
namespace {

Header of(FrameType type, std::uint64_t length = 0) {
  Header header;
  header.type = static_cast<std::uint8_t>(type);
  header.length = length;
  return header;
}

TEST(TcpFrame, LiesOnTheWireAsDocumented) {
  EXPECT_EQ(offsetof(Header, type), 0U);
  EXPECT_EQ(offsetof(Header, bits), 1U);
  EXPECT_EQ(offsetof(Header, code), 2U);
  EXPECT_EQ(offsetof(Header, taken), 4U);
  EXPECT_EQ(offsetof(Header, id), 8U);
  EXPECT_EQ(offsetof(Header, done), 16U);
  EXPECT_EQ(offsetof(Header, key), 24U);
  EXPECT_EQ(offsetof(Header, offset), 32U);
  EXPECT_EQ(offsetof(Header, length), 40U);
  EXPECT_EQ(offsetof(Header, epoch), 48U);
  EXPECT_EQ(offsetof(Header, flag_epoch), 52U);
  EXPECT_EQ(offsetof(Header, flag_key), 56U);
  EXPECT_EQ(offsetof(Header, flag_offset), 64U);
  EXPECT_EQ(offsetof(Header, value), 72U);
}

TEST(TcpFrame, KnowsItsTypes) {
  EXPECT_NE(problem_of(of(static_cast<FrameType>(0))), nullptr);
  EXPECT_NE(problem_of(of(static_cast<FrameType>(13))), nullptr);
  EXPECT_NE(problem_of(of(static_cast<FrameType>(255))), nullptr);
  EXPECT_EQ(problem_of(of(FrameType::kAck)), nullptr);
  EXPECT_EQ(problem_of(of(FrameType::kReadEnd)), nullptr);
}

TEST(TcpFrame, RefusesOversizedOnes) {
  EXPECT_EQ(problem_of(of(FrameType::kWrite, kMaxLength)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kWrite, kMaxLength + 1)), nullptr);
  EXPECT_EQ(problem_of(of(FrameType::kRead, std::uint64_t{1} << 33)), nullptr);
  EXPECT_EQ(problem_of(of(FrameType::kMessage, kMaxMessage)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kMessage, kMaxMessage + 1)), nullptr);
  EXPECT_EQ(problem_of(of(FrameType::kReadPart, kMaxPart)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kReadPart, kMaxPart + 1)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kReadPart, 0)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kAck, 1)), nullptr);
  EXPECT_NE(problem_of(of(FrameType::kFetchAdd, 8)), nullptr);
}

TEST(TcpFrame, RefusesUnknownBitsAndCodes) {
  auto write = of(FrameType::kWrite, 8);
  write.bits = kFlagged | kNotify | kPatient;
  EXPECT_EQ(problem_of(write), nullptr);
  write.bits = 8;
  EXPECT_NE(problem_of(write), nullptr);
  auto read = of(FrameType::kRead, 8);
  read.bits = kFlagged;
  EXPECT_NE(problem_of(read), nullptr);
  auto refusal = of(FrameType::kRefusal, 3);
  EXPECT_NE(problem_of(refusal), nullptr);
  refusal.code = 5;
  EXPECT_EQ(problem_of(refusal), nullptr);
  refusal.code = 17;
  EXPECT_NE(problem_of(refusal), nullptr);
}

TEST(TcpFrame, OnlySomeCarryAPayload) {
  EXPECT_EQ(payload_of(of(FrameType::kWrite, 77)), 77U);
  EXPECT_EQ(payload_of(of(FrameType::kMessage, 77)), 77U);
  EXPECT_EQ(payload_of(of(FrameType::kRead, 77)), 0U);
}

}  // namespace
}  // namespace ferry::fabric::tcp
