#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

#include "tests/grpc/kit.h"

// Ends of all kinds, TLS and local sockets; the same assertions on TCP and with the plug-in.

namespace {

using ferry::test::Echo;
using ferry::test::Words;

// With the plug-in they go its way.
void expect_calls_our_way(Server& server) {
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report().empty(), !has_plugin());
}

// The exit status of this program as a client.
int run_client(std::vector<std::string> words, const Environment& environment) {
  words.insert(words.begin(), "/proc/self/exe");
  const auto client = start_program(words, environment);
  const int status = wait_for(client.pid);
  ::close(client.input);
  ::close(client.output);
  return status;
}

// Descriptors of this process that are connected to a port of this host.
std::set<int> sockets_to(int port) {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const bool v6 = peer.sin_family == AF_INET6;  // its port is at the same place
    if ((v6 || peer.sin_family == AF_INET) && ntohs(peer.sin_port) == port) found.insert(fd);
  }
  return found;
}

TEST(GrpcEnds, TlsChannels) {
  Server server({.tls = true});
  expect_calls_our_way(server);
}

TEST(GrpcEnds, LocalSockets) {
  Server server({.address = "unix:" + scratch() + "/socket"});
  expect_calls_our_way(server);
}

TEST(GrpcEnds, AKilledServerIsSeenAtOnce) {
  Server server;
  auto stub = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*stub, 100).ok());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    server.kill_now();
  });
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(call_echo(*stub, 100, 30, false, 20'000).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  killer.join();
}

// While large messages cross.
TEST(GrpcEnds, AServerKilledInTheMiddleOfALargeMessage) {
  Server server;
  auto stub = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*stub, 1 << 20).ok());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    server.kill_now();
  });
  grpc::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = call_echo(*stub, 8 << 20);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  killer.join();
}

TEST(GrpcEnds, AChannelReconnects) {
  auto server = std::make_unique<Server>();
  const int port = server->port();
  auto stub = Echo::NewStub(server->channel());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(call_echo(*stub, 50'000, 30, true).ok());
    if (i % 2 == 0) {
      server->kill_now();
    } else {
      EXPECT_EQ(server->stop(), 0);
    }
    EXPECT_EQ(call_echo(*stub, 100, 5).error_code(), grpc::StatusCode::UNAVAILABLE);
    server = std::make_unique<Server>(ServerOptions{.port = port});
  }
  ASSERT_TRUE(call_echo(*stub, 50'000, 30, true).ok());
}

TEST(GrpcEnds, AClientThatIsKilledHarmsNobody) {
  Server server;
  auto stub = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*stub, 100).ok());
  for (int i = 0; i < 2; ++i) {
    const auto client = start_program({"/proc/self/exe", "--client", server.address()}, {});
    EXPECT_EQ(read_line(client.output), "going");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::kill(client.pid, SIGKILL);
    wait_for(client.pid);
    ::close(client.input);
    ::close(client.output);
    ASSERT_TRUE(call_echo(*stub, 1 << 20).ok());
  }
  EXPECT_EQ(server.stop(), 0);
}

// Calls under way end well; new ones are refused.
TEST(GrpcEnds, GracefulShutdownLetsCallsEnd) {
  Server server;
  auto stub = Echo::NewStub(server.channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto talk = stub->Talk(&context);
  Words asked;
  Words said;
  asked.set_payload(stamped(3 << 20, 1));
  ASSERT_TRUE(talk->Write(asked) && talk->Read(&said));  // the server has the call
  asked.set_sleep_ms(500);
  ASSERT_TRUE(talk->Write(asked));
  int stopped = -1;
  std::thread stopping([&] { stopped = server.stop(); });
  EXPECT_TRUE(talk->Read(&said));
  EXPECT_EQ(said.payload(), asked.payload());
  talk->WritesDone();
  const auto late = talk->Finish();
  stopping.join();
  EXPECT_EQ(stopped, 0);
  EXPECT_TRUE(late.ok()) << late.error_message();
  EXPECT_EQ(call_echo(*stub, 100, 5).error_code(), grpc::StatusCode::UNAVAILABLE);
}

// What the plug-in had begun for it ends after the program has looked for the last time.
TEST(GrpcEnds, AChannelThatIsGivenUpWhileItConnects) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, raw, size), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ASSERT_EQ(::getsockname(listener, raw, &size), 0);
  auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                                     grpc::InsecureChannelCredentials());
  {
    auto stub = Echo::NewStub(channel);
    EXPECT_FALSE(call_echo(*stub, 100, 1).ok());
  }
  ::close(listener);  // and with it what it has not taken
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  auto given_up = std::async(std::launch::async, [&] { channel.reset(); });
  ASSERT_EQ(given_up.wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(GrpcEnds, AStoppedServerMeetsTheDeadlineAndGoesOn) {
  Server server;
  auto stub = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*stub, 100).ok());
  server.signal(SIGSTOP);
  EXPECT_EQ(call_echo(*stub, 1000, 0.5).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  server.signal(SIGCONT);
  const auto status = call_echo(*stub, 5 << 20);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

// Without epoll: gRPC's threads wait in poll().
TEST(GrpcEnds, PollInsteadOfEpoll) {
  const Environment poll = {{"GRPC_POLL_STRATEGY", "poll"}};
  Server server({.environment = poll});
  EXPECT_EQ(run_client({"--client", server.address(), "20"}, poll), 0);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report().empty(), !has_plugin());
}

// A process that forks before it uses gRPC: it and its child are clients as any.
TEST(GrpcEnds, AForkBeforeGrpcIsUsed) {
  Server server;
  EXPECT_EQ(run_client({"--forked-client", server.address(), "10"}, {}), 0);
  EXPECT_EQ(server.stop(), 0);
  const auto report = server.report();
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), has_plugin() ? 2 : 0) << report;
}

// Bytes that belong to no protocol, on the connection that calls have used.
TEST(GrpcEnds, GarbageOnALiveConnectionEndsItAlone) {
  Server server;
  auto other = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*other, 100).ok());
  const auto others = sockets_to(server.port());
  auto stub = Echo::NewStub(server.channel());
  ASSERT_TRUE(call_echo(*stub, 100).ok());
  int told = 0;
  for (const int fd : sockets_to(server.port())) {
    if (others.count(fd) != 0) continue;
    const auto garbage = stamped(500, 5);
    EXPECT_GT(::send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    ++told;
  }
  EXPECT_EQ(told, 1);
  // The call may meet the end of the old connection; then the channel has a new one.
  auto status = call_echo(*stub, 100, 30, true);
  if (!status.ok()) status = call_echo(*stub, 100, 30, true);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(call_echo(*other, 1 << 20).ok());
  EXPECT_EQ(server.stop(), 0);
}

TEST(GrpcEnds, NobodyThere) {
  int port = 0;
  {
    Server gone;
    port = gone.port();
  }
  auto stub = Echo::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  EXPECT_EQ(call_echo(*stub, 10, 5).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
