#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>

#include "tests/grpc/kit.h"

// Where the two ends differ: one of them without the plug-in, with another secret, or hostile. A
// call that may fail fast sees none of it.

namespace {

using ferry::test::Echo;
using ferry::test::Words;
using testing::HasSubstr;

bool can_preload() {
#ifdef FERRY_SANITIZED
  return false;
#else
  return true;
#endif
}

int raw_socket(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// This program has the plug-in or not, and the server is of the other kind.
TEST(GrpcPlugin, OneSideWithout) {
  Server server({.plugin = !has_plugin()});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
  EXPECT_EQ(
      server.plain_report().find("the client did not ask for the plug-in") != std::string::npos,
      !has_plugin());
}

TEST(GrpcPlugin, OneSideWithoutOverTls) {
  Server server({.plugin = !has_plugin(), .tls = true});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, AServerChangesKindBetweenConnections) {
  auto server = std::make_unique<Server>(ServerOptions{.plugin = true});
  const int port = server->port();
  auto stub = Echo::NewStub(server->channel());
  for (bool plugin : {false, true, false}) {
    EXPECT_TRUE(call_echo(*stub, 100).ok());
    server = nullptr;
    server = std::make_unique<Server>(ServerOptions{.plugin = plugin, .port = port});
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    Words said;
    const auto status = stub->Unary(&context, {}, &said);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

TEST(GrpcPlugin, AnotherSecretStaysOnTcp) {
  Server server({.environment = {{"FERRY_SECRET", "not the one of the client"}}});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, TheEnvironmentTurnsItOff) {
  Server server({.environment = {{"FERRY_GRPC", "off"}}});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, AnArgumentTurnsItOffForOneServer) {
  Server server({.off = true});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
  EXPECT_EQ(server.plain_report().find("the plug-in is off for this server") != std::string::npos,
            has_plugin());
}

TEST(GrpcPlugin, AnArgumentTurnsItOffForOneChannel) {
  Server server;
  grpc::ChannelArguments off;
  off.SetInt("tensorferry.enable", 0);
  expect_calls(server, off);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, OverTcpLanes) {
  if (!has_plugin()) GTEST_SKIP() << "of the plug-in only";
  Server server({.environment = {{"FERRY_GRPC_PROVIDER", "tcp"}}});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.report(), HasSubstr(" by tcp: "));
}

// What can be left out, to measure what it gives, is left out, and nothing else changes.
TEST(GrpcPlugin, WithoutWhatMakesItFast) {
  if (!has_plugin()) GTEST_SKIP() << "of the plug-in only";
  for (const char* provider : {"shm", "tcp"}) {
    Server server({.environment = {{"FERRY_GRPC_PROVIDER", provider},
                                   {"FERRY_GRPC_WITHOUT", "pipelining,coalescing,zero-copy"}}});
    expect_calls(server);
    EXPECT_EQ(server.stop(), 0);
    EXPECT_THAT(server.report(), HasSubstr(" 0 in place"));
    EXPECT_THAT(server.report(), HasSubstr(" 0 registered"));
  }
}

TEST(GrpcPlugin, MessagesAreCountedBySize) {
  if (!has_plugin()) GTEST_SKIP() << "of the plug-in only";
  Server server;
  auto stub = Echo::NewStub(server.channel());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(call_echo(*stub, 5000).ok());
  stub = nullptr;
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.report(), testing::ContainsRegex("writes by size.* 4K:20[ ;]"));
  EXPECT_THAT(server.report(), testing::ContainsRegex("taken by size.* 4K:20"));
}

// A program that was built without the plug-in, and knows nothing of it.
TEST(GrpcPlugin, PreloadedIntoAnUnmodifiedProgram) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  Server server({.plugin = false, .environment = {{"LD_PRELOAD", plugin_path()}}});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report().empty(), !has_plugin());
}

TEST(GrpcPlugin, AnotherVersionOfGrpcIsLeftAlone) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  const auto both = std::string(FERRY_OTHER_VERSION_PATH) + ":" + plugin_path();
  Server server({.plugin = false, .environment = {{"LD_PRELOAD", both}}});
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, LoadedLateItLeavesGrpcAlone) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be loaded late";
  if (has_plugin()) GTEST_SKIP() << "it is loaded already";
  Server server;
  expect_calls(server);
  testing::internal::CaptureStderr();
  void* library = ::dlopen(plugin_path().c_str(), RTLD_NOW);
  const auto said = testing::internal::GetCapturedStderr();
  ASSERT_NE(library, nullptr) << ::dlerror();
  EXPECT_THAT(said, HasSubstr("was used before the plug-in was loaded"));
  expect_calls(server);
}

TEST(GrpcPlugin, PreloadedIntoAProgramWithoutGrpc) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  const auto shell = start_program({"/bin/sh", "-c", "echo fine"}, {{"LD_PRELOAD", plugin_path()}});
  EXPECT_EQ(read_line(shell.output), "fine");
  EXPECT_EQ(wait_for(shell.pid), 0);
  ::close(shell.input);
  ::close(shell.output);
}

// As an interpreter does with an extension: nobody else sees its symbols.
TEST(GrpcPlugin, PreloadedIntoAProgramThatLoadsGrpcForItself) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  const std::string program = R"(
import ctypes
class Slice(ctypes.Structure):
  _fields_ = [("count", ctypes.c_void_p), ("rest", ctypes.c_char * 24)]
copy = ctypes.CDLL("libgrpc.so.29").grpc_slice_from_copied_buffer
copy.restype = Slice
copy.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
print("fine" if copy(b"x" * 100000, 100000).count else "no slice")
)";
  const auto python =
      start_program({"/usr/bin/python3", "-c", program}, {{"LD_PRELOAD", plugin_path()}});
  EXPECT_EQ(read_line(python.output), "fine");
  EXPECT_EQ(wait_for(python.pid), 0);
  ::close(python.input);
  ::close(python.output);
}

// The lines of a log, but for those that a loaded machine may cause.
std::string without_silence(const std::string& log) {
  std::istringstream lines(log);
  std::string rest;
  for (std::string line; std::getline(lines, line);)
    if (line.find("has been silent for") == std::string::npos &&
        line.find("speaks again after") == std::string::npos)
      rest += line + "\n";
  return rest;
}

// What a program says that loads gRPC after it has started and calls this server, by the plug-in's
// log. `preloaded` is loaded before it starts.
std::string log_of_late_program(const Server& server, const std::string& preloaded,
                                const Environment& more = {}) {
  const auto path = scratch() + "/late";
  Environment environment{{"LD_PRELOAD", preloaded}};
  environment.insert(environment.end(), more.begin(), more.end());
  const auto program = start_program(
      logging_to(path, {FERRY_LATE_PATH, FERRY_LATE_CLIENT_PATH, server.address()}), environment);
  EXPECT_EQ(read_line(program.output), "fine");
  EXPECT_EQ(wait_for(program.pid), 0);
  ::close(program.input);
  ::close(program.output);
  return without_silence(read_file(path));
}

// Of a program that loads gRPC when it runs nothing goes over the plug-in, and the program's user
// is told once.
TEST(GrpcPlugin, AProgramThatLoadsGrpcLateSaysThatItStaysOnTcp) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  Server server;
  const auto said = log_of_late_program(server, plugin_path());
  EXPECT_THAT(said,
              testing::ContainsRegex("libgrpc\\.so\\.29 stays on TCP: the program loaded it"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report(), "");
}

TEST(GrpcPlugin, TurnedOffItSaysNothingOfAGrpcThatIsLoadedLate) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  Server server;
  EXPECT_EQ(log_of_late_program(server, plugin_path(), {{"FERRY_GRPC", "off"}}), "");
}

// What that line tells the user to do.
TEST(GrpcPlugin, AProgramThatLoadsGrpcLateIsServedIfGrpcIsPreloaded) {
  if (!can_preload()) GTEST_SKIP() << "a sanitizer's run time cannot be preloaded";
  Server server;
  EXPECT_EQ(log_of_late_program(server, plugin_path() + ":libgrpc.so.29"), "");
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.report().empty(), !has_plugin());
}

// Neither crashes nor hangs, and serves others meanwhile.
TEST(GrpcPlugin, GarbageHarmsNobody) {
  Server server;
  const std::string texts[] = {
      "FRRY" + stamped(200, 1), "FRRY",          "FR",
      "F" + stamped(3, 2),      stamped(100, 3), "FRRY" + std::string(100'000, 'x')};
  std::vector<int> open;
  for (const auto& text : texts) {
    const int fd = raw_socket(server.port());
    EXPECT_GT(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), 0);
    open.push_back(fd);
  }
  expect_calls(server);
  for (int fd : open) ::close(fd);
  expect_calls(server);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
