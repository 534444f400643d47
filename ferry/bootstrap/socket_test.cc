#include "ferry/bootstrap/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "ferry/bootstrap/hello_pair_internal.h"

namespace ferry::bootstrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

Fd accept_one(int listener) {
  pollfd poll{listener, POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 20'000), 1);
  return std::move(*accept_tcp(listener));
}

struct Pair {
  Fd connector;
  Fd acceptor;
};

Pair connected(const char* host = "127.0.0.1") {
  auto listener = listen_tcp({host, 0}, 4);
  EXPECT_TRUE(listener);
  auto connector = connect_tcp(*local_endpoint(listener->get()), soon());
  EXPECT_TRUE(connector);
  return {std::move(*connector), accept_one(listener->get())};
}

TEST(SocketTest, ListensOnWhatIsNamedAndTellsThePort) {
  auto listener = listen_tcp({"127.0.0.1", 0}, 4);
  ASSERT_TRUE(listener);
  auto where = local_endpoint(listener->get());
  ASSERT_TRUE(where);
  EXPECT_EQ(where->host, "127.0.0.1");
  EXPECT_NE(where->port, 0);
}

TEST(SocketTest, APortInUseIsNamed) {
  auto first = listen_tcp({"127.0.0.1", 0}, 4);
  ASSERT_TRUE(first);
  auto where = *local_endpoint(first->get());
  auto second = listen_tcp(where, 4);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kAlreadyExists);
  EXPECT_EQ(second.error().os_code(), EADDRINUSE);
  EXPECT_NE(second.error().message().find("port " + std::to_string(where.port)), std::string::npos);
}

TEST(SocketTest, NeverListensOnAllAddressesByDefault) {
  auto listener = listen_tcp({"", 0}, 4);
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code(), Code::kInvalidArgument);
}

TEST(SocketTest, AnAddressOfAnotherHostIsNamed) {
  auto listener = listen_tcp({"192.0.2.1", 0}, 4);
  ASSERT_FALSE(listener);
  EXPECT_NE(listener.error().message().find("no such address"), std::string::npos);
}

TEST(SocketTest, ConnectedSocketsAreSetUp) {
  auto pair = connected();
  for (int fd : {pair.connector.get(), pair.acceptor.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  }
  EXPECT_EQ(*remote_endpoint(pair.connector.get()), *local_endpoint(pair.acceptor.get()));
  EXPECT_EQ(*local_endpoint(pair.connector.get()), *remote_endpoint(pair.acceptor.get()));
}

TEST(SocketTest, SpeaksIpv6) {
  auto listener = listen_tcp({"::1", 0}, 4);
  if (!listener) GTEST_SKIP() << "no IPv6 loopback here: " << listener.error().message();
  EXPECT_EQ(option(listener->get(), IPPROTO_IPV6, IPV6_V6ONLY), 1);
  auto where = *local_endpoint(listener->get());
  EXPECT_EQ(where.host, "::1");
  EXPECT_TRUE(connect_tcp(where, soon()));
}

TEST(SocketTest, ConnectsByName) {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0)
    GTEST_SKIP() << "this machine knows no host of the name localhost; see /etc/hosts";
  freeaddrinfo(found);
  auto listener = listen_tcp({"localhost", 0}, 4);
  ASSERT_TRUE(listener);
  EXPECT_TRUE(connect_tcp({"localhost", local_endpoint(listener->get())->port}, soon()));
}

TEST(SocketTest, NobodyListening) {
  std::uint16_t port = 0;
  {
    auto listener = listen_tcp({"127.0.0.1", 0}, 4);
    port = local_endpoint(listener->get())->port;
  }
  auto fd = connect_tcp({"127.0.0.1", port}, soon());
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code(), Code::kUnavailable);
  EXPECT_NE(fd.error().message().find(std::to_string(port)), std::string::npos);
}

TEST(SocketTest, NobodyConnectsToPortZero) {
  EXPECT_EQ(connect_tcp({"127.0.0.1", 0}, soon()).error().code(), Code::kInvalidArgument);
}

TEST(SocketTest, AnUnknownHostIsNamed) {
  auto fd = connect_tcp({"no-such-host.invalid", 1}, soon());
  ASSERT_FALSE(fd);
  EXPECT_NE(fd.error().message().find("no-such-host.invalid"), std::string::npos);
}

// A full backlog leaves the connector without an answer, as a firewall that drops packets does.
TEST(SocketTest, ASilentHostEndsAtTheDeadline) {
  auto listener = listen_tcp({"127.0.0.1", 0}, 0);
  ASSERT_TRUE(listener);
  auto where = *local_endpoint(listener->get());
  std::vector<Fd> queued;
  for (int i = 0; i < 8; ++i) {
    auto fd = connect_tcp(where, Deadline::after(milliseconds(100)));
    if (!fd) {
      EXPECT_EQ(fd.error().code(), Code::kDeadlineExceeded);
      return;
    }
    queued.push_back(std::move(*fd));
  }
  FAIL() << "a backlog of 0 took 8 connections";
}

TEST(SocketTest, NobodyWaitingIsAnOutcome) {
  auto listener = listen_tcp({"127.0.0.1", 0}, 4);
  auto fd = accept_tcp(listener->get());
  ASSERT_TRUE(fd);
  EXPECT_FALSE(*fd);
}

TEST(SocketTest, AcceptOnSomethingElseFails) { EXPECT_FALSE(accept_tcp(-1)); }

TEST(SocketTest, MovesMoreThanTheBuffersHold) {
  auto pair = connected();
  std::vector<std::byte> sent(16 << 20);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 31 >> 3);
  std::vector<std::byte> received(sent.size());
  std::thread sender([&] { EXPECT_TRUE(send_all(pair.connector.get(), sent, soon())); });
  EXPECT_TRUE(receive_all(pair.acceptor.get(), received, soon()));
  sender.join();
  EXPECT_EQ(sent, received);
}

TEST(SocketTest, AStalledPeerEndsAtTheDeadline) {
  auto pair = connected();
  std::vector<std::byte> bytes(16 << 20);
  auto sent = send_all(pair.connector.get(), bytes, Deadline::after(milliseconds(50)));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code(), Code::kDeadlineExceeded);
  auto got = receive_all(pair.connector.get(), bytes, Deadline::after(milliseconds(50)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kDeadlineExceeded);
}

TEST(SocketTest, AClosedPeerIsNamedAndRaisesNoSignal) {
  auto pair = connected();
  pair.acceptor.reset();
  std::vector<std::byte> bytes(1 << 20);
  auto got = receive_all(pair.connector.get(), bytes, soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_NE(got.error().message().find("closed the connection"), std::string::npos);
  Status sent;
  while (sent) sent = send_all(pair.connector.get(), bytes, soon());
  EXPECT_EQ(sent.error().code(), Code::kUnavailable);
}

TEST(SocketTest, SilenceIsBounded) {
  auto pair = connected();
  ASSERT_TRUE(set_user_timeout(pair.connector.get(), milliseconds(2500)));
  EXPECT_EQ(option(pair.connector.get(), SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(pair.connector.get(), IPPROTO_TCP, TCP_KEEPIDLE), 1);
  EXPECT_EQ(option(pair.connector.get(), IPPROTO_TCP, TCP_USER_TIMEOUT), 2500);
  EXPECT_FALSE(set_user_timeout(-1, milliseconds(2500)));
}

}  // namespace
}  // namespace ferry::bootstrap
