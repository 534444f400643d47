#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "tests/grpc/kit.h"

// Ends of all kinds, TLS and local sockets; the same assertions on TCP and with the plug-in.

namespace {

using ferry::test::Echo;

// With the plug-in they go its way.
void expect_calls_our_way(Server& server) {
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report().empty(), !has_plugin());
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
  ASSERT_TRUE(call_echo(*stub, 100).ok());
  grpc::Status late;
  std::thread caller([&] { late = call_echo(*stub, 3 << 20, 30, false, 500); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(server.stop(), 0);
  caller.join();
  EXPECT_TRUE(late.ok()) << late.error_message();
  EXPECT_EQ(call_echo(*stub, 100, 5).error_code(), grpc::StatusCode::UNAVAILABLE);
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
