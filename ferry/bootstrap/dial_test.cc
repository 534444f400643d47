#include "ferry/bootstrap/dial.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "ferry/bootstrap/socket.h"

namespace ferry::bootstrap {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): 10ms reads well

class BusyListener {
 public:
  BusyListener() : fd_(*listen_tcp(*Endpoint::parse("127.0.0.1:0"), 16)) {}
  Endpoint endpoint() const { return *local_endpoint(fd_.get()); }
  Fd accept() const {
    for (auto limit = Deadline::after(20s); !limit.expired();) {
      pollfd ready{fd_.get(), POLLIN, 0};
      ::poll(&ready, 1, 100);
      if (auto socket = accept_tcp(fd_.get()); socket && *socket) return *std::move(socket);
    }
    return {};
  }

 private:
  Fd fd_;
};

Secret dial_secret() { return *Secret::from_text("the secret of this test"); }

// Runs the acceptor's side up to the connector's proof, and then says that it is busy.
void turn_away(int fd) {
  auto handshake = *Handshake::open(Role::kAcceptor, dial_secret(), {});
  std::byte buffer[4096];
  for (auto limit = Deadline::after(20s); !handshake.has_opening() && !limit.expired();) {
    pollfd ready{fd, POLLIN, 0};
    ::poll(&ready, 1, 100);
    auto got = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0) return;
    if (got < 0) continue;
    EXPECT_TRUE(handshake.consume({buffer, static_cast<std::size_t>(got)}));
  }
  EXPECT_FALSE(handshake.has_proof());
  handshake.say_busy();
  EXPECT_FALSE(handshake.consume({}));
  EXPECT_TRUE(send_all(fd, handshake.output(), Deadline::after(20s)));
  ::shutdown(fd, SHUT_WR);
  // Its proof may be on its way; a socket closed with unread bytes would take the word back.
  while (::recv(fd, buffer, sizeof buffer, 0) > 0 || errno == EAGAIN) {
    pollfd ready{fd, POLLIN, 0};
    if (::poll(&ready, 1, 1000) <= 0) break;
    if (::recv(fd, buffer, sizeof buffer, MSG_PEEK) == 0) break;
  }
}

TEST(Dial, TriesAgainWhenThePeerIsBusy) {
  BusyListener listener;
  std::thread peer([&] {
    for (int i = 0; i < 2; ++i) turn_away(listener.accept().get());
    listener.accept().reset();  // without a word
    auto socket = listener.accept();
    EXPECT_TRUE(join(socket.get(), Role::kAcceptor, dial_secret(), {}, Deadline::after(20s)));
  });
  auto made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(20s));
  EXPECT_TRUE(made) << made.error().to_string();
  peer.join();
}

// A lane's token is spent once the peer has taken it, though the connector may not know.
TEST(Dial, RenewsItsHelloForEachTry) {
  BusyListener listener;
  std::thread peer([&] {
    turn_away(listener.accept().get());
    auto socket = listener.accept();
    auto second = join(socket.get(), Role::kAcceptor, dial_secret(), {}, Deadline::after(20s));
    ASSERT_TRUE(second) << second.error().to_string();
    EXPECT_EQ(second->peer.session, 2U);
  });
  Hello mine;
  mine.session = 1;
  auto made = dial(listener.endpoint(), dial_secret(), mine, Deadline::after(20s),
                   [](Hello& hello) -> Status {
                     ++hello.session;
                     return {};
                   });
  EXPECT_TRUE(made) << made.error().to_string();
  peer.join();
}

// It used to be given up after two seconds, for a place further back.
TEST(Dial, KeepsItsPlaceInThePeersBacklog) {
  BusyListener listener;
  std::thread peer([&] {
    auto socket = listener.accept();
    std::this_thread::sleep_for(3s);
    auto joined = join(socket.get(), Role::kAcceptor, dial_secret(), {}, Deadline::after(60s));
    EXPECT_TRUE(joined) << joined.error().to_string();
  });
  auto made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(60s));
  EXPECT_TRUE(made) << made.error().to_string();
  peer.join();
}

TEST(Dial, SaysBusyWhenThePeerStaysSo) {
  BusyListener listener;
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    while (!stop)
      if (auto socket = listener.accept()) turn_away(socket.get());
  });
  // On a busy machine there may be no time for one answer.
  auto made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(500ms));
  for (auto time = 1s; !made && made.error().code() == Code::kDeadlineExceeded && time < 60s;
       time *= 2)
    made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(time));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnavailable) << made.error().to_string();
  EXPECT_NE(made.error().message().find("busy"), std::string::npos) << made.error().to_string();
  stop = true;
  (void)connect_tcp(listener.endpoint(), Deadline::after(1s));  // wakes it
  peer.join();
}

// The last try used to say that its time was over, and no more.
TEST(Dial, SaysBusyAlsoWhenTheLastTryGotNoAnswer) {
  BusyListener listener;
  std::atomic<bool> over{false};
  std::thread peer([&] {
    turn_away(listener.accept().get());
    while (!over) std::this_thread::sleep_for(1ms);  // takes nobody else
  });
  auto made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(5s));
  over = true;
  peer.join();
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("busy"), std::string::npos) << made.error().to_string();
}

TEST(Dial, TakesNoForAnAnswer) {
  BusyListener listener;
  std::atomic<int> came{0};
  std::thread peer([&] {
    auto socket = listener.accept();
    ++came;
    EXPECT_FALSE(join(socket.get(), Role::kAcceptor, *Secret::from_text("quite another secret"), {},
                      Deadline::after(20s)));
  });
  auto made = dial(listener.endpoint(), dial_secret(), {}, Deadline::after(600s));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnauthenticated);
  peer.join();
  EXPECT_EQ(came, 1);
}

}  // namespace
}  // namespace ferry::bootstrap
