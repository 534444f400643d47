#include "ferry/bootstrap/hello.h"

#include <gtest/gtest.h>

#include "ferry/bootstrap/hello_internal.h"
#include "ferry/bootstrap/hello_pair_internal.h"

namespace ferry::bootstrap {
namespace {

// Opening, proof and hello of the example in docs/wire/bootstrap.md.
constexpr const char* kGoldenConnector =
    "46525259010001000101010101010101010101010101010101010101010101010101010101010101"
    "0100000020000000f83e0c9644b55510cdbd26362d7eadb8e49a6bdc7a2465a09ff1a06f046072bf"
    "02000000400000000100000000000000000000000000000000000000000000000000000000000000"
    "d87154318bcc0b681146218ceae18043bd8243e75891b522e77d4c5d192baeb2";
constexpr const char* kGoldenAcceptor =
    "46525259010001000202020202020202020202020202020202020202020202020202020202020202"
    "0100000020000000a8453f85ce93fa4d0488c666627a422116f6e64d6fc1ae5c529a69901285da31"
    "02000000400000000100000000000000000000000000000000000000000000000000000000000000"
    "fcc4afc8b1e1c2d9a5cb8ec956d6ecc24e671e06a143e7c1b4d929bc6d6a9e6d";
constexpr const char* kGoldenKey =
    "5ac5803b59c3599f64f2d8963fb0acc8dbaef63c0cf2ce83924df2b7da67611e";

TEST(HelloTest, BothSidesLearnOfEachOther) {
  Pair pair(kSecret, kSecret);
  pair.run();
  ASSERT_TRUE(pair.connector.done() && pair.acceptor.done());
  EXPECT_EQ(pair.acceptor.peer(), connector_hello());
  EXPECT_EQ(pair.connector.peer(), acceptor_hello());
  EXPECT_EQ(pair.connector.session_key(), pair.acceptor.session_key());
  EXPECT_EQ(pair.connector.version(), 1);
  EXPECT_TRUE(pair.connector.rest().empty() && pair.acceptor.rest().empty());
  EXPECT_TRUE(pair.connector.peer_closed());
}

TEST(HelloTest, SessionKeysNeverRepeat) {
  Pair first(kSecret, kSecret), second(kSecret, kSecret);
  first.run();
  second.run();
  EXPECT_NE(first.connector.session_key(), second.connector.session_key());
}

TEST(HelloTest, TakesOneByteAtATime) {
  Pair pair(kSecret, kSecret);
  pair.fragment = 1;
  pair.run();
  EXPECT_TRUE(pair.connector.done() && pair.acceptor.done());
}

TEST(HelloTest, TakesTheLargestBlob) {
  auto mine = connector_hello();
  mine.blob.assign(kMaxBlob, std::byte{7});
  Pair pair(kSecret, kSecret, mine);
  pair.run();
  ASSERT_TRUE(pair.acceptor.done());
  EXPECT_EQ(pair.acceptor.peer(), mine);
}

TEST(HelloTest, KeepsWhatFollows) {
  Pair pair(kSecret, kSecret);
  pair.run();
  std::vector<std::byte> more(3, std::byte{9});
  ASSERT_TRUE(pair.acceptor.consume(more));
  ASSERT_TRUE(pair.acceptor.consume(more));
  EXPECT_EQ(pair.acceptor.rest().size(), 6u);

  // In one fragment with the end of the handshake.
  Pair other(kSecret, kSecret);
  other.to_connector_hook = [&](std::vector<std::byte>& bytes, std::size_t at) {
    if (at == kOpeningSize + kHeaderSize + 32) bytes.insert(bytes.end(), more.begin(), more.end());
  };
  other.run();
  ASSERT_TRUE(other.connector.done());
  EXPECT_EQ(other.connector.rest().size(), 3u);
}

TEST(HelloTest, OnlyMagicVersionsAndNonceComeBeforeTheProofs) {
  Pair pair(kSecret, *Secret::from_text("quite another secret"));
  pair.run();
  // All that the two sides ever sent: openings, one proof, one refusal.
  EXPECT_EQ(pair.sent_by_connector.size(), kOpeningSize + kHeaderSize + 32);
  EXPECT_EQ(pair.sent_by_acceptor.size(), kOpeningSize + kHeaderSize + 1);
}

TEST(HelloTest, TheAcceptorSpeaksOnlyWhenSpokenTo) {
  Pair pair(kSecret, kSecret);
  EXPECT_TRUE(pair.acceptor.output().empty());
  auto garbage = std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n"));
  auto status = pair.acceptor.consume(garbage);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_NE(status.error().message().find("not a Tensorferry peer"), std::string::npos);
  EXPECT_TRUE(pair.acceptor.output().empty());
}

TEST(HelloTest, TheHighestCommonVersionWins) {
  auto old_side = connector_hello(), new_side = acceptor_hello();
  old_side.max_version = 3;
  new_side.min_version = 2;
  new_side.max_version = 9;
  Pair pair(kSecret, kSecret, old_side, new_side);
  pair.run();
  ASSERT_TRUE(pair.connector.done() && pair.acceptor.done());
  EXPECT_EQ(pair.connector.version(), 3);
  EXPECT_EQ(pair.acceptor.version(), 3);
}

TEST(HelloTest, TheAcceptorMayDecline) {
  Pair pair(kSecret, kSecret, connector_hello(), acceptor_hello(), [](const Hello& peer) -> Status {
    return fail(Code::kResourceExhausted, "lane {} is one too many\n", peer.lane);
  });
  pair.run();
  ASSERT_TRUE(pair.acceptor_error && pair.connector_error);
  EXPECT_EQ(pair.acceptor_error->code(), Code::kResourceExhausted);
  EXPECT_EQ(pair.connector_error->code(), Code::kResourceExhausted);
  EXPECT_EQ(pair.connector_error->message(), "the peer did not admit us: lane 3 is one too many?");
}

TEST(HelloTest, LongDenialsAreCut) {
  Pair pair(kSecret, kSecret, connector_hello(), acceptor_hello(), [](const Hello&) -> Status {
    return fail(Code::kNotFound, "{}", std::string(5000, 'x'));
  });
  pair.run();
  ASSERT_TRUE(pair.connector_error);
  EXPECT_EQ(pair.connector_error->code(), Code::kNotFound);
  EXPECT_LT(pair.connector_error->message().size(), kMaxDenial + 100);
}

TEST(HelloTest, WhatCannotBeSentIsRefusedAtOnce) {
  Hello large;
  large.blob.resize(kMaxBlob + 1);
  EXPECT_EQ(Handshake::open(Role::kConnector, kSecret, large).error().code(),
            Code::kInvalidArgument);
  Hello reversed;
  reversed.min_version = 2;
  EXPECT_EQ(Handshake::open(Role::kAcceptor, kSecret, reversed).error().code(),
            Code::kInvalidArgument);
}

TEST(HelloTest, HasTheDocumentedBytes) {
  Bytes32 ones, twos;
  ones.fill(std::byte{1});
  twos.fill(std::byte{2});
  auto secret = *Secret::from_text("0123456789abcdef");
  Pair pair(secret, secret);
  pair.connector = *Handshake::open_with_nonce(Role::kConnector, secret, Hello{}, ones);
  pair.acceptor = *Handshake::open_with_nonce(Role::kAcceptor, secret, Hello{}, twos);
  pair.run();
  ASSERT_TRUE(pair.connector.done() && pair.acceptor.done());
  EXPECT_EQ(hex(pair.sent_by_connector), kGoldenConnector);
  EXPECT_EQ(hex(pair.sent_by_acceptor), kGoldenAcceptor);
  EXPECT_EQ(hex(pair.connector.session_key()), kGoldenKey);
}

}  // namespace
}  // namespace ferry::bootstrap
