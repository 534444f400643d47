#include <gtest/gtest.h>

#include "ferry/bootstrap/codec.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/hello_internal.h"
#include "ferry/bootstrap/hello_pair_internal.h"

// What peers, programs and people in the middle may do to a handshake.
namespace ferry::bootstrap {
namespace {

const Secret kOther = *Secret::from_text("a secret of another cluster");

TEST(HelloHostileTest, AWrongSecretIsNamedOnBothSides) {
  Pair pair(kSecret, kOther);
  pair.run();
  EXPECT_FALSE(pair.connector.done() || pair.acceptor.done());
  for (const auto& error : {pair.connector_error, pair.acceptor_error}) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kUnauthenticated);
    EXPECT_NE(error->message().find("the cluster secrets differ"), std::string::npos);
  }
}

TEST(HelloHostileTest, NoCommonVersionIsNamedOnBothSidesWithBothRanges) {
  for (bool older_connects : {true, false}) {
    auto a = connector_hello(), b = acceptor_hello();
    auto& newer = older_connects ? b : a;
    newer.min_version = 4;
    newer.max_version = 6;
    Pair pair(kSecret, kSecret, a, b);
    pair.run();
    for (const auto& error : {pair.connector_error, pair.acceptor_error}) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), Code::kFailedPrecondition);
      EXPECT_NE(error->message().find("1 to 1"), std::string::npos) << error->message();
      EXPECT_NE(error->message().find("4 to 6"), std::string::npos) << error->message();
    }
  }
}

enum class Direction { kToAcceptor, kToConnector };

// Runs a handshake in which byte `position` of one direction is changed or is the first missing.
struct Tampered {
  Tampered(Direction direction, std::size_t position, std::uint8_t flip, bool cut)
      : pair(kSecret, kSecret) {
    auto hook = [=](std::vector<std::byte>& bytes, std::size_t at) {
      if (position < at) return cut ? bytes.clear() : void();
      if (position >= at + bytes.size()) return;
      if (cut) return bytes.resize(position - at);
      bytes[position - at] ^= std::byte{flip};
    };
    (direction == Direction::kToAcceptor ? pair.to_acceptor_hook : pair.to_connector_hook) = hook;
    pair.run();
    receiver = direction == Direction::kToAcceptor ? &pair.acceptor : &pair.connector;
    error = direction == Direction::kToAcceptor ? pair.acceptor_error : pair.connector_error;
  }
  Pair pair;
  Handshake* receiver;
  std::optional<Error> error;
};

std::size_t length_of(Direction direction) {
  Pair pair(kSecret, kSecret);
  pair.run();
  return direction == Direction::kToAcceptor ? pair.sent_by_connector.size()
                                             : pair.sent_by_acceptor.size();
}

TEST(HelloHostileTest, EveryFlippedBitIsDetected) {
  for (auto direction : {Direction::kToAcceptor, Direction::kToConnector}) {
    auto length = length_of(direction);
    for (std::size_t position = 0; position < length; ++position) {
      for (int bit = 0; bit < 8; ++bit) {
        Tampered run(direction, position, static_cast<std::uint8_t>(1 << bit), false);
        ASSERT_FALSE(run.receiver->done()) << "byte " << position << " bit " << bit;
        ASSERT_TRUE(run.error);
        // A flip that the acceptor sees also keeps the connector from believing that it is in.
        ASSERT_FALSE(direction == Direction::kToAcceptor && run.pair.connector.done());
      }
    }
  }
}

TEST(HelloHostileTest, EveryTruncationIsNamed) {
  for (auto direction : {Direction::kToAcceptor, Direction::kToConnector}) {
    auto length = length_of(direction);
    for (std::size_t position = 0; position < length; ++position) {
      Tampered run(direction, position, 0, true);
      ASSERT_FALSE(run.receiver->done()) << "cut at " << position;
      ASSERT_TRUE(run.error);
      EXPECT_EQ(run.error->code(), Code::kUnavailable);
      EXPECT_NE(run.error->message().find("was due"), std::string::npos);
    }
  }
}

TEST(HelloHostileTest, AnEchoProvesNothing) {
  auto connector = *Handshake::open(Role::kConnector, kSecret, connector_hello());
  std::vector<std::byte> echo(connector.output().begin(), connector.output().end());
  auto status = connector.consume(echo);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kUnauthenticated);
  EXPECT_NE(status.error().message().find("own challenge"), std::string::npos);
}

// An attacker without the secret ties two connectors together and passes the proof of one to the
// other as an acceptor's.
TEST(HelloHostileTest, ProofsDoNotServeTheOtherRole) {
  auto first = *Handshake::open(Role::kConnector, kSecret, connector_hello());
  auto second = *Handshake::open(Role::kConnector, kSecret, connector_hello());
  std::vector<std::byte> a(first.output().begin(), first.output().end());
  std::vector<std::byte> b(second.output().begin(), second.output().end());
  first.consumed_output(a.size());
  second.consumed_output(b.size());
  ASSERT_TRUE(first.consume(b));
  ASSERT_TRUE(second.consume(a));
  std::vector<std::byte> proof(second.output().begin(), second.output().end());
  auto status = first.consume(proof);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kUnauthenticated);
}

TEST(HelloHostileTest, AnOldTranscriptDoesNotServeAgain) {
  Pair old(kSecret, kSecret);
  old.run();
  auto acceptor = *Handshake::open(Role::kAcceptor, kSecret, acceptor_hello());
  auto status = acceptor.consume(old.sent_by_connector);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kUnauthenticated);
  auto connector = *Handshake::open(Role::kConnector, kSecret, connector_hello());
  status = connector.consume(old.sent_by_acceptor);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kUnauthenticated);
}

TEST(HelloHostileTest, AFailureStays) {
  Pair pair(kSecret, kOther);
  pair.run();
  Pair sound(kSecret, kSecret);
  sound.run();
  auto again = pair.acceptor.consume(sound.sent_by_connector);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kUnauthenticated);
  EXPECT_FALSE(pair.acceptor.peer_closed());
}

// Frames that must be refused as soon as their header is there.
TEST(HelloHostileTest, HeadersOutOfPlace) {
  const struct {
    std::uint8_t type;
    std::uint8_t reserved;
    std::uint32_t length;
  } kBad[] = {{kProofFrame, 0, 31},
              {kProofFrame, 0, 33},
              {kProofFrame, 0, 0xffffffff},
              {kProofFrame, 1, 32},
              {kHelloFrame, 0, 64},
              {kRefusalFrame, 0, 0},
              {kRefusalFrame, 0, 2},
              {kDenialFrame, 0, 40},
              {0, 0, 0},
              {99, 0, 32}};
  for (const auto& bad : kBad) {
    auto acceptor = *Handshake::open(Role::kAcceptor, kSecret, acceptor_hello());
    auto connector = *Handshake::open(Role::kConnector, kOther, connector_hello());
    ASSERT_TRUE(acceptor.consume(connector.output()));
    acceptor.consumed_output(acceptor.output().size());
    std::vector<std::byte> header;
    Encoder(header).u8(bad.type).u8(bad.reserved).u16(0).u32(bad.length);
    auto status = acceptor.consume(header);
    ASSERT_FALSE(status) << int(bad.type) << " " << bad.length;
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    EXPECT_EQ(acceptor.output().size(), kHeaderSize + 1) << "the peer is told why";
  }
}

// A member of the cluster that breaks the limit is told so before its blob is buffered.
TEST(HelloHostileTest, AnOversizedBlobIsRefusedAtItsHeader) {
  Pair pair(kSecret, kSecret);
  auto hello_at = kOpeningSize + kHeaderSize + 32;
  pair.to_acceptor_hook = [&](std::vector<std::byte>& bytes, std::size_t at) {
    if (at < hello_at) return;
    bytes.clear();
    Encoder(bytes)
        .u8(kHelloFrame)
        .u8(0)
        .u16(0)
        .u32(static_cast<std::uint32_t>(kHelloFixed + kMaxBlob + 33));
  };
  pair.run();
  ASSERT_TRUE(pair.acceptor_error && pair.connector_error);
  EXPECT_EQ(pair.acceptor_error->code(), Code::kInvalidArgument);
  EXPECT_EQ(pair.connector_error->code(), Code::kInvalidArgument);
}

TEST(HelloHostileTest, UnknownPurposesAreRefused) {
  auto strange = connector_hello();
  strange.purpose = static_cast<Purpose>(9);
  Pair pair(kSecret, kSecret, strange);
  pair.run();
  ASSERT_TRUE(pair.acceptor_error && pair.connector_error);
  EXPECT_EQ(pair.acceptor_error->code(), Code::kInvalidArgument);
}

TEST(HelloHostileTest, ReversedVersionsAreGarbage) {
  auto acceptor = *Handshake::open(Role::kAcceptor, kSecret, acceptor_hello());
  std::vector<std::byte> opening;
  Encoder(opening).raw(std::as_bytes(std::span(kMagic))).u16(2).u16(1).raw(Bytes32{});
  auto status = acceptor.consume(opening);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::bootstrap
