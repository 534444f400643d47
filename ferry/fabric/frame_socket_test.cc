#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <vector>

#include "ferry/fabric/frame_socket_internal.h"
#include "ferry/fabric/session_frames_internal.h"

namespace ferry::fabric {
namespace {

constexpr auto kPing = static_cast<std::uint16_t>(FrameType::kPing);
constexpr auto kPong = static_cast<std::uint16_t>(FrameType::kPong);
constexpr auto kAnswer = static_cast<std::uint16_t>(FrameType::kAnswer);

// A frame socket, and the peer's end of its connection, which takes little unread.
class FrameSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const int small = 4096;
    ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    peer_ = Fd(ends[1]);
    socket_ = std::make_unique<FrameSocket>(Fd(ends[0]), total_, "the peer", [this](auto events) {
      watched_ = events;
      return Status();
    });
    ASSERT_TRUE(socket_->watch_on_loop());
  }

  void peer_sends(std::uint16_t type) {
    Outbox out(peer_total_);
    out.append(type, 0, {}, false);
    ASSERT_TRUE(out.flush(peer_.get()));
  }

  // Serves what has come; pings are answered.
  Status serve() {
    return socket_->serve_on_loop(
        {},
        [this](const bootstrap::Frame& frame) {
          ++handled_;
          if (frame.type == kPing) socket_->owe_pong_on_loop();
          return Status();
        },
        heard_);
  }

  // Takes all that waits at the peer's end: the types of its frames.
  std::vector<std::uint16_t> peer_takes() {
    std::vector<std::uint16_t> types;
    std::byte buffer[65536];
    for (;;) {
      const auto got = ::recv(peer_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (got <= 0) return types;
      reader_.feed({buffer, static_cast<std::size_t>(got)});
      while (auto frame = reader_.next().value_or(std::nullopt)) types.push_back(frame->type);
    }
  }

  Outbox::Total total_{0};
  Outbox::Total peer_total_{0};
  Fd peer_;
  std::unique_ptr<FrameSocket> socket_;
  std::uint32_t watched_ = 0;
  bootstrap::FrameReader reader_;
  int handled_ = 0;
  bool heard_ = false;
};

TEST_F(FrameSocketTest, ManyPingsAreAnsweredByOnePong) {
  for (int i = 0; i < 10; ++i) peer_sends(kPing);
  ASSERT_TRUE(serve());
  EXPECT_EQ(handled_, 10);
  EXPECT_TRUE(heard_);
  EXPECT_EQ(peer_takes(), std::vector<std::uint16_t>{kPong});
}

TEST_F(FrameSocketTest, APeerThatTakesNoAnswersIsNotReadUntilItDoes) {
  const std::vector<std::byte> answer(8192);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(socket_->send(kAnswer, 1, answer, true));
  peer_sends(kPing);
  ASSERT_TRUE(serve());
  EXPECT_EQ(handled_, 0) << "it asks for more than it takes";
  EXPECT_EQ(watched_, static_cast<std::uint32_t>(EPOLLOUT)) << "the loop looks for room alone";
  for (int i = 0; i < 64 && handled_ == 0; ++i) {
    peer_takes();
    ASSERT_TRUE(serve());
  }
  EXPECT_EQ(handled_, 1);
  EXPECT_NE(watched_ & EPOLLIN, 0U);
}

TEST_F(FrameSocketTest, NoticesThatAPeerLeavesUnreadDoNotPauseIt) {
  const std::vector<std::byte> notice(8192);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(socket_->send(kPing, 0, notice, false));
  peer_sends(kPing);
  ASSERT_TRUE(serve());
  EXPECT_EQ(handled_, 1);
}

TEST_F(FrameSocketTest, APeerThatReadsNothingIsGivenUp) {
  const std::vector<std::byte> notice(bootstrap::kMaxPayload);
  Status sent;
  for (int i = 0; i < 1000 && sent; ++i) sent = socket_->send(kPing, 0, notice, false);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kUnavailable);
}

TEST_F(FrameSocketTest, TheEndOfTheConnectionNamesThePeer) {
  peer_ = Fd();
  const auto served = serve();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code(), Code::kUnavailable);
  EXPECT_NE(served.error().message().find("the peer"), std::string::npos);
}

}  // namespace
}  // namespace ferry::fabric
