#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "ferry/fabric/tcp/lane_internal.h"
#include "ferry/fabric/tcp/test_kit_internal.h"

namespace ferry::fabric::tcp {
namespace {

using namespace std::chrono_literals;

class FakeSession : public PeerSession {
 public:
  const PeerIdentity& identity() const override { return identity_; }
  std::uint32_t number() const override { return 1; }
  std::uint32_t number_at_peer() const override { return 1; }
  std::span<const std::byte, 32> session_key() const override { return key_; }
  Result<std::vector<std::byte>> call(std::string_view, std::span<const std::byte>,
                                      Deadline) override {
    return fail(Code::kUnimplemented, "nobody to ask");
  }
  void tell(std::string_view, std::span<const std::byte>) override {}
  void peer_lost(Error) override { lost.fetch_add(1); }
  void lane_broken(Lane&, Error) override { broken.fetch_add(1); }

  std::atomic<int> lost{0};
  std::atomic<int> broken{0};

 private:
  PeerIdentity identity_{.device = {}, .endpoint = "the test", .host = "", .uid = 0, .pid = 0};
  std::array<std::byte, 32> key_{};
};

// A lane whose peer is the test, at the other end of a socket.
class TcpLaneAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    loops.push_back(Loop::open("loop", 50us).value());
    grants = GrantTable::create().value();
    context.grants = grants.get();
    context.operations = &operations;
    context.loops = &loops;
    source = std::make_unique<TcpSource>(*loops[0]);
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    theirs = Fd(fds[1]);
    timeval limit{10, 0};
    ::setsockopt(theirs.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    lane = std::make_shared<TcpLane>(*source, context, session, 3);
    ASSERT_TRUE(lane->start(Fd(fds[0]), {}));
  }
  void TearDown() override {
    lane->close(fail(Code::kCancelled, "the test is over").value());
    lane.reset();
    source.reset();
    loops.clear();
    EXPECT_EQ(operations.in_use(), 0U);
  }

  Transfer post(Verb verb, std::span<std::byte> local, Nanos limit) {
    Request request;
    request.verb = verb;
    request.local = local.data();
    request.length = local.size();
    request.deadline = Deadline::after(limit);
    return lane->post(request);
  }
  Transfer post_late() {
    Request request;
    request.local = &word_;
    request.length = 1;
    request.deadline = Deadline::after(20s);
    request.pace = Pace::kLate;
    return lane->post(request);
  }
  // A thread that is always awake at the loop.
  template <class F>
  void while_somebody_spins(F&& function) {
    std::atomic<bool> stop{false};
    std::atomic<bool> there{false};
    std::thread spinner([&] {
      auto look = [&] { return there.store(true), stop.load(); };
      loops[0]->wait_until(look, Deadline::after(20s), WaitMode::kSpin);
    });
    while (!there.load()) std::this_thread::yield();
    function();
    stop.store(true);
    spinner.join();
  }
  bool heard_nothing() {
    Header header;
    return ::recv(theirs.get(), &header, sizeof header, MSG_DONTWAIT | MSG_PEEK) < 0;
  }
  static Code code_of(Transfer& transfer) {
    auto status = transfer.wait();
    return status ? Code::kOk : status.error().code();
  }
  // The session is told right after the operations have ended.
  static bool becomes(const std::atomic<int>& count, int value) {
    auto limit = Deadline::after(10s);
    while (count.load() != value && !limit.expired()) std::this_thread::yield();
    return count.load() == value;
  }
  Header hear() {
    Header header;
    EXPECT_EQ(::recv(theirs.get(), &header, sizeof header, MSG_WAITALL),
              static_cast<ssize_t>(sizeof header));
    return header;
  }
  void say(const Header& header, std::span<const std::byte> payload = {}) {
    auto bytes = frame_bytes(header, payload);
    EXPECT_EQ(::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static Header of(FrameType type, std::uint64_t id, std::uint64_t done) {
    Header header;
    header.type = static_cast<std::uint8_t>(type);
    header.id = id;
    header.done = done;
    return header;
  }

  std::vector<std::unique_ptr<Loop>> loops;
  OperationPool operations;
  std::unique_ptr<GrantTable> grants;
  ProviderContext context{};
  std::unique_ptr<TcpSource> source;
  std::shared_ptr<FakeSession> session = std::make_shared<FakeSession>();
  Fd theirs;
  std::shared_ptr<TcpLane> lane;
  std::byte word_{};
};

TEST_F(TcpLaneAlone, AWriteEndsWhenThePeerSaysSo) {
  std::vector<std::byte> bytes(100);
  auto transfer = post(Verb::kWrite, bytes, 10s);
  EXPECT_FALSE(transfer.poll());
  EXPECT_EQ(hear().id, 1U);
  say(of(FrameType::kAck, 0, 1));
  EXPECT_EQ(code_of(transfer), Code::kOk);
}

TEST_F(TcpLaneAlone, ALateAnswerToAReadIsDroppedAndTheLaneGoesOn) {
  std::vector<std::byte> into(100, std::byte{7});
  auto read = post(Verb::kRead, into, 30ms);
  EXPECT_EQ(hear().kind(), FrameType::kRead);
  EXPECT_EQ(code_of(read), Code::kDeadlineExceeded);
  auto part = of(FrameType::kReadPart, 1, 0);
  part.length = 100;
  say(part, std::vector<std::byte>(100, std::byte{9}));
  say(of(FrameType::kReadEnd, 1, 0));
  auto again = post(Verb::kRead, into, 10s);
  EXPECT_EQ(hear().id, 2U);
  for (auto byte : into) ASSERT_EQ(byte, std::byte{7});
  part.id = 2;
  part.done = 1;
  say(part, std::vector<std::byte>(100, std::byte{5}));
  say(of(FrameType::kReadEnd, 2, 1));
  EXPECT_EQ(code_of(again), Code::kOk);
  for (auto byte : into) ASSERT_EQ(byte, std::byte{5});
  EXPECT_EQ(session->broken.load(), 0);
}

TEST_F(TcpLaneAlone, ACancelledReadEndsAndKeepsItsBuffer) {
  std::vector<std::byte> into(100, std::byte{7});
  auto read = post(Verb::kRead, into, 10s);
  read.cancel();
  EXPECT_EQ(code_of(read), Code::kCancelled);
  EXPECT_TRUE(lane->up());
}

TEST_F(TcpLaneAlone, AHalfSentWriteBreaksTheLaneAtItsDeadline) {
  std::vector<std::byte> large(std::size_t{8} << 20);
  std::vector<std::byte> small(10);
  auto stuck = post(Verb::kWrite, large, 50ms);  // nobody reads
  auto behind = post(Verb::kWrite, small, 10s);
  EXPECT_EQ(code_of(stuck), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(behind), Code::kUnavailable);
  EXPECT_FALSE(lane->up());
  EXPECT_TRUE(becomes(session->broken, 1));
  auto later = post(Verb::kWrite, small, 10s);
  EXPECT_EQ(code_of(later), Code::kUnavailable);
}

TEST_F(TcpLaneAlone, WhatWasNotBegunIsTakenBackAndTheRestArrives) {
  std::vector<std::byte> large(std::size_t{8} << 20);
  std::vector<std::byte> small(10);
  auto first = post(Verb::kWrite, large, 20s);
  auto dropped = post(Verb::kWrite, small, 30ms);
  auto last = post(Verb::kWrite, small, 20s);
  EXPECT_EQ(code_of(dropped), Code::kDeadlineExceeded);
  std::thread reader([&] {
    std::vector<std::byte> sink(std::size_t{8} << 20);
    std::uint64_t id = 0;
    for (int frames = 0; frames < 3 && id < 3; ++frames) {
      auto header = hear();
      id = header.id;
      auto payload = payload_of(header);
      if (payload != 0) {
        EXPECT_EQ(::recv(theirs.get(), sink.data(), payload, MSG_WAITALL),
                  static_cast<ssize_t>(payload));
      }
      if (frames == 1 && header.kind() == FrameType::kWrite) break;  // it never got a number
    }
    say(of(FrameType::kAck, 0, id));
  });
  EXPECT_EQ(code_of(first), Code::kOk);
  EXPECT_EQ(code_of(last), Code::kOk);
  reader.join();
}

TEST_F(TcpLaneAlone, GarbageEndsTheSession) {
  std::vector<std::byte> bytes(10);
  auto pending = post(Verb::kWrite, bytes, 10s);
  say(of(static_cast<FrameType>(0xee), 1, 1));
  EXPECT_EQ(code_of(pending), Code::kInvalidArgument);
  EXPECT_TRUE(becomes(session->lost, 1));
  EXPECT_FALSE(lane->up());
}

TEST_F(TcpLaneAlone, APeerThatSaysGoodbyeDoesNotBreakTheLane) {
  std::vector<std::byte> bytes(10);
  auto pending = post(Verb::kWrite, bytes, 10s);
  say(of(FrameType::kBye, 0, 0));
  EXPECT_EQ(code_of(pending), Code::kUnavailable);
  EXPECT_EQ(session->broken.load(), 0);
}

TEST_F(TcpLaneAlone, APeerThatHangsUpBreaksTheLane) {
  std::vector<std::byte> bytes(10);
  auto pending = post(Verb::kWrite, bytes, 10s);
  theirs.reset();
  EXPECT_EQ(code_of(pending), Code::kUnavailable);
  EXPECT_TRUE(becomes(session->broken, 1));
}

// Whoever sleeps would not send it: it leaves at once, or when they come to look.
TEST_F(TcpLaneAlone, ALateWriteLeavesThoughNobodyIsAwake) {
  std::vector<Transfer> late;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    late.push_back(post_late());
    EXPECT_EQ(hear().id, id);
    std::byte payload;
    EXPECT_EQ(::recv(theirs.get(), &payload, 1, MSG_WAITALL), 1);
    if (id % 3 == 0) std::this_thread::sleep_for(3ms);
  }
  say(of(FrameType::kAck, 0, 20));
  for (auto& transfer : late) EXPECT_EQ(code_of(transfer), Code::kOk);
}

TEST_F(TcpLaneAlone, ALateWriteLeavesThoughNothingElseIsPosted) {
  while_somebody_spins([&] {
    auto late = post_late();
    auto header = hear();
    EXPECT_EQ(header.id, 1U);
    EXPECT_EQ(header.bits, kPatient);
    say(of(FrameType::kAck, 0, 1));
    EXPECT_EQ(code_of(late), Code::kOk);
  });
}

TEST_F(TcpLaneAlone, LateWritesLeaveBeforeTheOneThatTheyWaitedFor) {
  // Nothing is received here, so nobody looks at the socket often enough to find them old.
  loops[0]->with_token([&] {
    auto first = post_late();
    auto second = post_late();
    std::vector<std::byte> bytes(10);
    auto prompt = post(Verb::kWrite, bytes, 20s);
    std::vector<std::byte> heard(3 * kHeaderBytes + 12);
    EXPECT_EQ(::recv(theirs.get(), heard.data(), heard.size(), MSG_WAITALL),
              static_cast<ssize_t>(heard.size()));
    Header last;
    std::memcpy(&last, heard.data() + 2 * (kHeaderBytes + 1), sizeof last);
    EXPECT_EQ(last.id, 3U);
    EXPECT_EQ(last.length, 10U);
    EXPECT_EQ(last.bits, 0);
  });
}

TEST_F(TcpLaneAlone, LateWritesLeaveWhenTheLaneIsClosed) {
  auto late = loops[0]->with_token([&] { return post_late(); });
  lane->close(fail(Code::kCancelled, "the test closes it").value());
  EXPECT_EQ(hear().kind(), FrameType::kWrite);
  EXPECT_EQ(code_of(late), Code::kCancelled);
}

// The peer's patience is not for ever.
TEST_F(TcpLaneAlone, WordOfAPatientRequestComesThoughNothingElseIsSent) {
  GrantTable::Grant wanted;
  wanted.address = reinterpret_cast<std::uint64_t>(&word_);
  wanted.length = 1;
  wanted.rights = Rights::kAll;
  wanted.peer = GrantTable::kAnyPeer;
  auto grant = grants->add(wanted).value();
  auto patient = of(FrameType::kWrite, 1, 0);
  patient.bits = kPatient;
  patient.key = grant.key;
  patient.epoch = grant.epoch;
  say(patient);
  EXPECT_EQ(hear().done, 1U);
  while_somebody_spins([&] {
    patient.id = 2;
    say(patient);
    EXPECT_EQ(hear().done, 2U);
  });
}

TEST_F(TcpLaneAlone, ManyThreadsPostAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::thread peer([&] {
    std::vector<std::byte> sink(64);
    for (std::uint64_t id = 1; id <= kThreads * kEach; ++id) {
      auto header = hear();
      ASSERT_EQ(header.id, id);
      if (header.length != 0) {
        ASSERT_EQ(::recv(theirs.get(), sink.data(), header.length, MSG_WAITALL),
                  static_cast<ssize_t>(header.length));
      }
      if (id % 16 == 0) say(of(FrameType::kAck, 0, id));
    }
    say(of(FrameType::kAck, 0, kThreads * kEach));
  });
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t)
    posters.emplace_back([&] {
      std::vector<std::byte> bytes(64);
      std::vector<Transfer> transfers;
      for (int i = 0; i < kEach; ++i)
        transfers.push_back(post(Verb::kWrite, std::span(bytes).first(i % 65), 20s));
      for (auto& transfer : transfers) EXPECT_EQ(code_of(transfer), Code::kOk);
    });
  for (auto& poster : posters) poster.join();
  peer.join();
}

}  // namespace
}  // namespace ferry::fabric::tcp
