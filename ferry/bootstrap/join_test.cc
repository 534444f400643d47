#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/hello_pair_internal.h"
#include "ferry/bootstrap/socket.h"

namespace ferry::bootstrap {
namespace {

class JoinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listener = listen_tcp({"127.0.0.1", 0}, 4);
    ASSERT_TRUE(listener);
    connector_ = std::move(*connect_tcp(*local_endpoint(listener->get()), soon()));
    pollfd poll{listener->get(), POLLIN, 0};
    ASSERT_EQ(::poll(&poll, 1, 20'000), 1);
    acceptor_ = std::move(*accept_tcp(listener->get()));
    ASSERT_TRUE(acceptor_);
  }
  // Runs the acceptor on a thread of its own; closes its socket at the end, as servers do.
  std::future<Result<Joined>> accept_with(const Secret& secret, const Admit& admit = {}) {
    return std::async(std::launch::async, [this, secret, admit] {
      auto joined = join(acceptor_.get(), Role::kAcceptor, secret, acceptor_hello(), soon(), admit);
      if (!joined) acceptor_.reset();
      return joined;
    });
  }
  Result<Joined> connect_with(const Secret& secret, Hello mine = connector_hello()) {
    return join(connector_.get(), Role::kConnector, secret, std::move(mine), soon());
  }

  Fd connector_;
  Fd acceptor_;
};

TEST_F(JoinTest, JoinsOverTcp) {
  auto mine = connector_hello();
  mine.blob.assign(kMaxBlob, std::byte{5});
  auto accepted = accept_with(kSecret);
  auto connected = connect_with(kSecret, mine);
  auto joined = accepted.get();
  ASSERT_TRUE(connected) << connected.error().to_string();
  ASSERT_TRUE(joined) << joined.error().to_string();
  EXPECT_EQ(joined->peer, mine);
  EXPECT_EQ(connected->peer, acceptor_hello());
  EXPECT_EQ(connected->session_key, joined->session_key);
  EXPECT_EQ(connected->version, 1);
}

TEST_F(JoinTest, KeepsWhatFollows) {
  auto accepted = accept_with(kSecret);
  auto connected = connect_with(kSecret);
  ASSERT_TRUE(connected);
  std::vector<std::byte> more(5, std::byte{8}), got(5);
  ASSERT_TRUE(send_all(connector_.get(), more, soon()));
  auto joined = accepted.get();
  ASSERT_TRUE(joined);
  std::copy(joined->rest.begin(), joined->rest.end(), got.begin());
  ASSERT_TRUE(receive_all(acceptor_.get(), std::span(got).subspan(joined->rest.size()), soon()));
  EXPECT_EQ(got, more);
}

TEST_F(JoinTest, AWrongSecretIsNamedOnBothSides) {
  auto accepted = accept_with(*Secret::from_text("a secret of another cluster"));
  auto connected = connect_with(kSecret);
  auto joined = accepted.get();
  ASSERT_FALSE(connected);
  ASSERT_FALSE(joined);
  EXPECT_EQ(connected.error().code(), Code::kUnauthenticated) << connected.error().to_string();
  EXPECT_EQ(joined.error().code(), Code::kUnauthenticated);
  EXPECT_NE(connected.error().message().find("127.0.0.1:"), std::string::npos);
}

TEST_F(JoinTest, AWrongVersionIsNamedOnBothSides) {
  auto mine = connector_hello();
  mine.min_version = mine.max_version = 40;
  auto accepted = accept_with(kSecret);
  auto connected = connect_with(kSecret, mine);
  auto joined = accepted.get();
  ASSERT_FALSE(connected);
  ASSERT_FALSE(joined);
  EXPECT_EQ(connected.error().code(), Code::kFailedPrecondition);
  EXPECT_EQ(joined.error().code(), Code::kFailedPrecondition);
}

TEST_F(JoinTest, ADenialReachesTheConnector) {
  auto accepted = accept_with(kSecret, [](const Hello&) -> Status {
    return fail(Code::kResourceExhausted, "64 connections are the most");
  });
  auto connected = connect_with(kSecret);
  accepted.wait();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code(), Code::kResourceExhausted);
  EXPECT_NE(connected.error().message().find("64 connections"), std::string::npos);
}

TEST_F(JoinTest, AnotherProgramIsNotAPeer) {
  auto accepted = accept_with(kSecret);
  auto request = std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(send_all(connector_.get(), request, soon()));
  auto joined = accepted.get();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), Code::kInvalidArgument);
}

TEST_F(JoinTest, ASilentPeerEndsAtTheDeadline) {
  auto joined = join(acceptor_.get(), Role::kAcceptor, kSecret, acceptor_hello(),
                     Deadline::after(std::chrono::milliseconds(50)));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), Code::kDeadlineExceeded);
}

TEST_F(JoinTest, APeerThatLeavesIsNamed) {
  auto accepted = accept_with(kSecret);
  connector_.reset();
  auto joined = accepted.get();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::bootstrap
