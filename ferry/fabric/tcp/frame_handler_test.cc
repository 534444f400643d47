#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ferry/base/fd.h"
#include "ferry/fabric/tcp/frame_handler_internal.h"
#include "ferry/fabric/tcp/test_kit_internal.h"

namespace ferry::fabric::tcp {
namespace {

// One end whose answers can be read back from a socket, and a granted region of 64 KiB.
class TcpFrameHandler : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = GrantTable::create();
    ASSERT_TRUE(made);
    grants = *std::move(made);
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
    end = std::make_unique<End>(*grants);
    end->sender.attach(ours.get());
    grant = give(Rights::kAll);
  }

  GrantTable::Grant give(Rights rights, std::uint32_t peer = GrantTable::kAnyPeer) {
    GrantTable::Grant wanted;
    wanted.address = reinterpret_cast<std::uint64_t>(memory.data());
    wanted.length = memory.size();
    wanted.rights = rights;
    wanted.peer = peer;
    return grants->add(wanted).value();
  }

  Header request(FrameType type, std::uint64_t offset, std::uint64_t length) {
    Header header;
    header.type = static_cast<std::uint8_t>(type);
    header.id = ++last_id;
    header.key = grant.key;
    header.epoch = grant.epoch;
    header.offset = offset;
    header.length = length;
    return header;
  }

  Status feed(const Header& header, std::size_t payload = 0, std::byte fill = std::byte{0x5a}) {
    return end->feed(frame_bytes(header, std::vector<std::byte>(payload, fill)));
  }

  // What the end says next: word of everything if nothing else.
  Header answer() {
    end->sender.pay_debt();
    Header header;
    EXPECT_EQ(::recv(theirs.get(), &header, sizeof header, MSG_WAITALL | MSG_DONTWAIT),
              static_cast<ssize_t>(sizeof header));
    return header;
  }
  std::string text(std::size_t length) {
    std::string read(length, ' ');
    EXPECT_EQ(::recv(theirs.get(), read.data(), length, MSG_DONTWAIT),
              static_cast<ssize_t>(length));
    return read;
  }
  void expect_refusal(Code code) {
    auto refusal = answer();
    EXPECT_EQ(refusal.kind(), FrameType::kRefusal);
    EXPECT_EQ(refusal.id, last_id);
    EXPECT_EQ(refusal.done, last_id - 1);
    EXPECT_EQ(static_cast<Code>(refusal.code), code);
    EXPECT_FALSE(text(refusal.length).empty());
  }

  std::vector<std::byte> memory = std::vector<std::byte>(65536);
  std::unique_ptr<GrantTable> grants;
  GrantTable::Grant grant;
  Fd ours;
  Fd theirs;
  std::unique_ptr<End> end;
  std::uint64_t last_id = 0;
};

TEST_F(TcpFrameHandler, PlacesAWriteAndAcknowledgesIt) {
  ASSERT_TRUE(feed(request(FrameType::kWrite, 100, 3000), 3000));
  EXPECT_EQ(memory[99], std::byte{0});
  EXPECT_EQ(memory[100], std::byte{0x5a});
  EXPECT_EQ(memory[3099], std::byte{0x5a});
  EXPECT_EQ(memory[3100], std::byte{0});
  EXPECT_TRUE(end->protocol.take_urgent());
  auto ack = answer();
  EXPECT_EQ(ack.kind(), FrameType::kAck);
  EXPECT_EQ(ack.done, 1U);
}

TEST_F(TcpFrameHandler, StoresTheFlagAfterThePayload) {
  auto write = request(FrameType::kWrite, 0, 64);
  write.bits = kFlagged;
  write.flag_key = grant.key;
  write.flag_epoch = grant.epoch;
  write.flag_offset = 128;
  write.value = 77;
  auto bytes = frame_bytes(write, std::vector<std::byte>(64, std::byte{1}));
  std::uint64_t flag = 0;
  ASSERT_TRUE(end->feed(std::span(bytes).first(bytes.size() - 1)));
  std::memcpy(&flag, memory.data() + 128, sizeof flag);
  EXPECT_EQ(flag, 0U);
  ASSERT_TRUE(end->feed(std::span(bytes).last(1)));
  std::memcpy(&flag, memory.data() + 128, sizeof flag);
  EXPECT_EQ(flag, 77U);
}

TEST_F(TcpFrameHandler, KnowsWhetherThePeerWaitsForWord) {
  auto patient = request(FrameType::kWrite, 0, 8);
  patient.bits = kPatient;
  ASSERT_TRUE(feed(patient, 8));
  EXPECT_FALSE(end->protocol.take_urgent());
  EXPECT_FALSE(end->protocol.is_waited_for());
  EXPECT_EQ(end->sender.debt(), 1U);
  ASSERT_TRUE(feed(request(FrameType::kNop, 0, 0)));
  EXPECT_TRUE(end->protocol.is_waited_for());
  EXPECT_EQ(answer().done, 2U);
  EXPECT_FALSE(end->protocol.is_waited_for());
  bool urgent = false;
  for (std::uint64_t i = 0; i < kWindow / 4; ++i) {
    auto next = request(FrameType::kWrite, 0, 8);
    next.bits = kPatient;
    ASSERT_TRUE(feed(next, 8));
    urgent |= end->protocol.take_urgent();
  }
  EXPECT_TRUE(urgent);
}

TEST_F(TcpFrameHandler, RefusesWhatWasNotGrantedAndGoesOn) {
  auto unknown = request(FrameType::kWrite, 0, 10);
  unknown.key ^= std::uint64_t{1} << 40;
  unknown.epoch = 0;
  ASSERT_TRUE(feed(unknown, 10));
  expect_refusal(Code::kNotFound);
  ASSERT_TRUE(feed(request(FrameType::kWrite, 65530, 7), 7));
  expect_refusal(Code::kOutOfRange);
  ASSERT_TRUE(feed(request(FrameType::kRead, ~std::uint64_t{0} - 3, 8)));
  expect_refusal(Code::kOutOfRange);
  auto stale = request(FrameType::kRead, 0, 8);
  stale.epoch -= 1;
  ASSERT_TRUE(feed(stale));
  expect_refusal(Code::kFailedPrecondition);
  grant = give(Rights::kRead);
  ASSERT_TRUE(feed(request(FrameType::kWrite, 0, 8), 8));
  expect_refusal(Code::kPermissionDenied);
  ASSERT_TRUE(feed(request(FrameType::kFetchAdd, 0, 0)));
  expect_refusal(Code::kPermissionDenied);
  grant = give(Rights::kAll, 99);
  ASSERT_TRUE(feed(request(FrameType::kWrite, 0, 8), 8));
  expect_refusal(Code::kPermissionDenied);
  EXPECT_EQ(memory[0], std::byte{0});
  grant = give(Rights::kAll);
  ASSERT_TRUE(feed(request(FrameType::kWrite, 0, 8), 8));
  EXPECT_EQ(memory[0], std::byte{0x5a});
  EXPECT_EQ(answer().done, last_id);
}

TEST_F(TcpFrameHandler, StopsPlacingWhenTheGrantIsRevokedHalfway) {
  auto bytes = frame_bytes(request(FrameType::kWrite, 0, 40000),
                           std::vector<std::byte>(40000, std::byte{0x5a}));
  ASSERT_TRUE(end->feed(std::span(bytes).first(20000)));
  EXPECT_EQ(memory[10000], std::byte{0x5a});
  ASSERT_TRUE(grants->remove(grant.key));
  ASSERT_TRUE(end->feed(std::span(bytes).subspan(20000)));
  EXPECT_EQ(memory[30000], std::byte{0});
  expect_refusal(Code::kFailedPrecondition);
}

TEST_F(TcpFrameHandler, AnswersAReadInPartsAndEndsIt) {
  memory.assign(memory.size(), std::byte{9});
  ASSERT_TRUE(feed(request(FrameType::kRead, 1, 1000)));
  auto part = answer();
  EXPECT_EQ(part.kind(), FrameType::kReadPart);
  EXPECT_EQ(part.length, 1000U);
  EXPECT_EQ(text(1000), std::string(1000, '\x09'));
  EXPECT_EQ(answer().kind(), FrameType::kReadEnd);
}

TEST_F(TcpFrameHandler, RefusesAReadWhoseGrantIsRevokedBeforeItsBytesLeave) {
  memory.assign(memory.size(), std::byte{9});
  ASSERT_TRUE(feed(request(FrameType::kRead, 0, 1000)));
  ASSERT_TRUE(grants->remove(grant.key));
  expect_refusal(Code::kFailedPrecondition);
}

TEST_F(TcpFrameHandler, SendsZerosForWhatIsRevokedHalfSentAndSaysSo) {
  int small = 4096;
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  memory.assign(memory.size(), std::byte{9});
  ASSERT_TRUE(feed(request(FrameType::kRead, 0, 60000)));
  ASSERT_EQ(end->sender.kick(false), Sender::Outcome::kBlocked);
  ASSERT_TRUE(grants->remove(grant.key));
  std::vector<std::byte> all;
  while (all.size() < kHeaderBytes + 60000 + kHeaderBytes) {
    std::byte buffer[4096];
    auto got = ::recv(theirs.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) all.insert(all.end(), buffer, buffer + got);
    end->sender.kick(true);
    if (got <= 0 && end->sender.kick(true) == Sender::Outcome::kIdle) break;
  }
  ASSERT_GE(all.size(), kHeaderBytes + 60000 + kHeaderBytes);
  EXPECT_EQ(all[kHeaderBytes], std::byte{9});
  EXPECT_EQ(all[kHeaderBytes + 59999], std::byte{0});
  Header last;
  std::memcpy(&last, all.data() + kHeaderBytes + 60000, sizeof last);
  EXPECT_EQ(last.kind(), FrameType::kRefusal);
  EXPECT_EQ(static_cast<Code>(last.code), Code::kFailedPrecondition);
}

TEST_F(TcpFrameHandler, ServesAtomics) {
  auto add = request(FrameType::kFetchAdd, 8, 0);
  add.value = 5;
  ASSERT_TRUE(feed(add));
  auto found = answer();
  EXPECT_EQ(found.kind(), FrameType::kFound);
  EXPECT_EQ(found.value, 0U);
  auto swap = request(FrameType::kCompareSwap, 8, 0);
  swap.flag_key = 5;
  swap.value = 11;
  ASSERT_TRUE(feed(swap));
  EXPECT_EQ(answer().value, 5U);
  ASSERT_TRUE(feed(request(FrameType::kFetchAdd, 8, 0)));
  EXPECT_EQ(answer().value, 11U);
  ASSERT_TRUE(feed(request(FrameType::kFetchAdd, 9, 0)));
  expect_refusal(Code::kInvalidArgument);
}

TEST_F(TcpFrameHandler, KeepsMessagesUntilTheyAreTakenAndCountsThem) {
  for (std::uint32_t i = 0; i < kMessageCredits; ++i)
    ASSERT_TRUE(feed(request(FrameType::kMessage, 0, i), i));
  std::vector<std::byte> into(kMaxMessage);
  EXPECT_EQ(end->inbox.take(into).value(), 0U);
  EXPECT_EQ(end->inbox.take(into).value(), 1U);
  EXPECT_EQ(end->inbox.take(std::span(into).first(1)).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(end->inbox.take(into).value(), 2U);
  EXPECT_EQ(answer().taken, 3U);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(feed(request(FrameType::kMessage, 0, 1), 1));
  EXPECT_FALSE(feed(request(FrameType::kMessage, 0, 1), 1));
}

TEST_F(TcpFrameHandler, RefusesPeersThatBreakTheRules) {
  auto skipped = request(FrameType::kWrite, 0, 0);
  skipped.id += 1;
  EXPECT_FALSE(feed(skipped));
  Header lie;
  lie.type = static_cast<std::uint8_t>(FrameType::kAck);
  lie.done = 1;  // nothing was asked for
  EXPECT_FALSE(End(*grants).feed(frame_bytes(lie)));
  Header found;
  found.type = static_cast<std::uint8_t>(FrameType::kFound);
  found.id = 1;
  EXPECT_FALSE(End(*grants).feed(frame_bytes(found)));
}

TEST_F(TcpFrameHandler, BoundsWhatOnePeerMayAskFor) {
  Status status;
  std::uint64_t asked = 0;
  while (status && asked < 2 * kWindow) {
    status = feed(request(FrameType::kRead, 0, 8));
    ++asked;
  }
  EXPECT_FALSE(status);
  EXPECT_EQ(asked, kWindow + 1);
}

}  // namespace
}  // namespace ferry::fabric::tcp
