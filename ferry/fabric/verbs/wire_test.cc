#include <gtest/gtest.h>

#include "ferry/fabric/verbs/wire_internal.h"

namespace ferry::fabric::verbs {
namespace {

LaneHello sample() {
  LaneHello hello;
  hello.address.ethernet = true;
  hello.address.gid_type = GidType::kRoce2;
  hello.address.mtu = 5;
  hello.address.lid = 0x1234;
  hello.address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  hello.qpn = 0xabcdef;
  hello.psn = 0x123456;
  hello.read_depth = 16;
  hello.credits = 64;
  return hello;
}

TEST(VerbsWire, HelloIsByteExact) {
  auto bytes = encode(sample());
  ASSERT_EQ(bytes.size(), 36u);
  const std::uint8_t expected[] = {1,    0,    2,    2, 5,    0,    0x34, 0x12, 0,  0,  0,  0,
                                   0,    0,    0,    0, 0,    0,    0xff, 0xff, 10, 77, 0,  1,
                                   0xef, 0xcd, 0xab, 0, 0x56, 0x34, 0x12, 0,    16, 0,  64, 0};
  for (std::size_t i = 0; i < sizeof expected; ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  auto back = decode_hello(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->qpn, 0xabcdefu);
  EXPECT_EQ(back->address.gid, sample().address.gid);
}

TEST(VerbsWire, NonsenseIsRefusedByName) {
  auto bytes = encode(sample());
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_EQ(decode_hello(std::span(bytes).first(cut)).error().code(), Code::kInvalidArgument);
  auto change = [&](std::size_t at, int value) {
    auto changed = bytes;
    changed[at] = static_cast<std::byte>(value);
    return decode_hello(changed).error().code();
  };
  EXPECT_EQ(change(0, 2), Code::kFailedPrecondition);  // version
  EXPECT_EQ(change(2, 3), Code::kInvalidArgument);     // link
  EXPECT_EQ(change(3, 0), Code::kInvalidArgument);     // InfiniBand GID on Ethernet
  EXPECT_EQ(change(4, 6), Code::kInvalidArgument);     // MTU
  EXPECT_EQ(change(27, 1), Code::kInvalidArgument);    // queue pair number above 24 bits
  EXPECT_EQ(change(34, 1), Code::kInvalidArgument);    // too few credits
}

TEST(VerbsWire, NoticesComeBack) {
  Notice notice;
  notice.kind = Notice::Kind::kResolved;
  notice.qpn = 17;
  notice.region = {0x1122334455667788, 0x7f0000000000, 4096, 3, Rights::kRead};
  notice.rkey = 0xdeadbeef;
  notice.code = Code::kPermissionDenied;
  notice.text = "no";
  auto back = decode_notice(encode(notice));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, notice.kind);
  EXPECT_EQ(back->qpn, 17u);
  EXPECT_EQ(back->region, notice.region);
  EXPECT_EQ(back->rkey, notice.rkey);
  EXPECT_EQ(back->code, notice.code);
  EXPECT_EQ(back->text, "no");
  EXPECT_EQ(encode(notice).size(), 50u);
}

TEST(VerbsWire, ImmediatesComeBack) {
  auto bits = encode(Immediate{Immediate::Kind::kCredits, 32});
  EXPECT_EQ(bits, 0x30000020u);
  EXPECT_EQ(decode_immediate(bits)->credits, 32);
  EXPECT_FALSE(decode_immediate(0));
  EXPECT_FALSE(decode_immediate(0x50000000));
  EXPECT_FALSE(decode_immediate(0x10010000));
}

}  // namespace
}  // namespace ferry::fabric::verbs
