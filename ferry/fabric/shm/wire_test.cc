#include <gtest/gtest.h>
#include <unistd.h>

#include "ferry/fabric/shm/wire_internal.h"

namespace ferry::fabric::shm {
namespace {

template <class T>
T round_trip(const T& packet) {
  auto decoded = decode(encode(packet));
  EXPECT_TRUE(decoded) << decoded.error().to_string();
  return std::get<T>(*decoded);
}

TEST(Wire, PacketsSurviveTheTrip) {
  HelloPacket hello;
  hello.connecting = true;
  hello.token[3] = std::byte{9};
  hello.loops = 3;
  hello.loop = 2;
  hello.index = 77;
  auto back = round_trip(hello);
  EXPECT_TRUE(back.connecting);
  EXPECT_EQ(back.token, hello.token);
  EXPECT_EQ(back.loop, 2U);
  EXPECT_EQ(back.index, 77U);
  EXPECT_EQ(back.descriptors(), 7U);
  EXPECT_EQ(round_trip(RefusalPacket{Code::kUnavailable, "no"}).text, "no");
  EXPECT_EQ(round_trip(BlockPacket{5, std::uint64_t{1} << 40}).length, std::uint64_t{1} << 40);
  EXPECT_EQ(round_trip(DropPacket{6}).id, 6U);
  EXPECT_EQ(round_trip(RevokePacket{7, 8}).key, 8U);
  EXPECT_EQ(round_trip(RevokedPacket{9}).number, 9U);
}

TEST(Wire, EveryTruncationIsRefused) {
  for (const Packet& packet :
       {Packet(HelloPacket{true, {}, 1, 0, 0}), Packet(RefusalPacket{Code::kInternal, "text"}),
        Packet(BlockPacket{1, 2}), Packet(RevokePacket{1, 2})}) {
    auto bytes = encode(packet);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode(std::span(bytes).first(size))) << packet.index() << " " << size;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes));
  }
}

TEST(Wire, HelloOnALoopThatIsNotThereIsRefused) {
  EXPECT_FALSE(decode(encode(HelloPacket{true, {}, 2, 2, 0})));
  EXPECT_FALSE(decode(encode(HelloPacket{true, {}, 0, 0, 0})));
  EXPECT_FALSE(decode(encode(HelloPacket{true, {}, 100'000, 0, 0})));
}

TEST(Wire, OfferTellsWhoWeAre) {
  auto offer = Offer::of_this_process("name");
  ASSERT_TRUE(offer);
  auto back = Offer::decode(offer->encode());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->socket_name, "name");
  EXPECT_EQ(back->boot_id, offer->boot_id);
  EXPECT_EQ(back->pid, ::getpid());
  auto bytes = offer->encode();
  bytes[0] = std::byte{99};
  auto other = Offer::decode(bytes);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace ferry::fabric::shm
