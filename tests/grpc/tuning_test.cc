#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/grpc/kit.h"

// Where the thresholds of a connection come from: the environment, an argument of a channel or
// server, what is kept, what is measured when a path is first used.

namespace {

using ferry::test::Echo;
using testing::HasSubstr;
using namespace std::chrono_literals;

// Of the connections in the report of the server or of a client: messages that were announced.
int announced_in(const std::string& report) {
  const auto at = report.find(" rendezvous");
  if (at == std::string::npos) return -1;
  return std::atoi(report.substr(report.rfind(' ', at - 1) + 1).c_str());
}

// The report of a client that is a process of its own and makes some calls.
std::string report_of_client(const Server& server, std::vector<std::string> words,
                             Environment environment) {
  static int count = 0;
  const auto report = scratch() + "/client-report-" + std::to_string(count++);
  environment.emplace_back("FERRY_GRPC_STATS", report);
  words.insert(words.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.begin() + 2, server.address());
  const auto client = start_program(words, environment);
  EXPECT_EQ(wait_for(client.pid), 0) << read_line(client.output);
  ::close(client.input);
  ::close(client.output);
  return read_file(report);
}

class GrpcTuning : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_plugin()) GTEST_SKIP() << "of the plug-in only";
  }
  static void make_calls(const Server& server, int calls) {
    auto stub = Echo::NewStub(server.channel());
    for (int i = 0; i < calls; ++i) EXPECT_TRUE(call_echo(*stub, 5000).ok());
  }
};

TEST_F(GrpcTuning, TheEnvironmentSetsThresholds) {
  Server server({.environment = {{"FERRY_GRPC_PROVIDER", "tcp"},
                                 {"FERRY_GRPC_EAGER", "1000"},
                                 {"FERRY_GRPC_COPY_UP_TO", "4096"},
                                 {"FERRY_GRPC_CHUNK", "65536"},
                                 {"FERRY_GRPC_CHUNKS_IN_FLIGHT", "2"}}});
  make_calls(server, 20);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.report(),
              HasSubstr("eager up to 1000 bytes (set), copied up to 4096 bytes (set), chunks of "
                        "65536 bytes (set), 2 in flight (set)"));
  EXPECT_GE(announced_in(server.report()), 20);
}

TEST_F(GrpcTuning, WhatCannotBeIsNotUsed) {
  Server server(
      {.logs = true, .environment = {{"FERRY_GRPC_EAGER", "many"}, {"FERRY_GRPC_CHUNK", "1"}}});
  make_calls(server, 20);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.log(), HasSubstr("FERRY_GRPC_EAGER=many: a number from 0 to "));
  EXPECT_THAT(server.log(), HasSubstr("FERRY_GRPC_CHUNK=1: a number from 4096 to "));
  EXPECT_THAT(server.report(), HasSubstr("eager up to 8192 bytes (default)"));
  EXPECT_EQ(announced_in(server.report()), 0);
}

TEST_F(GrpcTuning, AnArgumentOfAServerIsAboveTheEnvironment) {
  Server server({.argument = "tensorferry.eager_threshold=1000",
                 .environment = {{"FERRY_GRPC_EAGER", "8000"}}});
  make_calls(server, 20);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.report(), HasSubstr("eager up to 1000 bytes (set)"));
  EXPECT_GE(announced_in(server.report()), 20);
}

TEST_F(GrpcTuning, AnArgumentOfAChannelIsAboveTheEnvironment) {
  Server server;
  const auto report =
      report_of_client(server,
                       {"--client", "3", "tensorferry.eager_threshold=2000",
                        "tensorferry.chunk_bytes=8192", "tensorferry.chunks_in_flight=3"},
                       {{"FERRY_GRPC_EAGER", "8000"}});
  EXPECT_THAT(report, HasSubstr("eager up to 2000 bytes (set)"));
  EXPECT_THAT(report, HasSubstr("chunks of 8192 bytes (set), 3 in flight (set)"));
}

// There are 16 slots. Messages in them are not lent to a program that keeps them.
TEST_F(GrpcTuning, AProgramMayKeepMessagesThatCameEagerly) {
  const Environment large{{"FERRY_GRPC_EAGER", "65536"}};
  Server server({.environment = large});
  const auto report = report_of_client(server, {"--keep", "40", "30000"}, large);
  EXPECT_THAT(report, HasSubstr("eager up to 65536 bytes (set)"));
  EXPECT_THAT(report, HasSubstr(" 0 rendezvous"));
}

// A folder of its own for what is measured, for this process and its servers.
class GrpcMeasuring : public GrpcTuning {
 protected:
  void SetUp() override {
    GrpcTuning::SetUp();
    folder_ = scratch() + "/tuning";
    ::setenv("FERRY_TUNING", folder_.c_str(), 1);
  }
  void TearDown() override { ::setenv("FERRY_TUNING", "off", 1); }

  ServerOptions options() const {
    return {.logs = true, .environment = {{"FERRY_TUNING", folder_}, {"FERRY_LOG", "info"}}};
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    if (!std::filesystem::exists(folder_)) return found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().extension() == ".json") found.push_back(entry.path());
    return found;
  }
  // Calls go on meanwhile, on the connection that is to be switched.
  void call_until_measured(const Server& server) {
    auto stub = Echo::NewStub(server.channel());
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (server.log().find(" is measured: ") == std::string::npos &&
           std::chrono::steady_clock::now() < limit)
      EXPECT_TRUE(call_echo(*stub, 100'000).ok());
    EXPECT_TRUE(call_echo(*stub, 100'000).ok());
  }

 private:
  std::string folder_;
};

TEST_F(GrpcMeasuring, FirstUseMeasuresAndSecondUseReads) {
  Server first(options());
  call_until_measured(first);
  EXPECT_EQ(first.stop(), 0);
  EXPECT_THAT(first.report(), HasSubstr("(measured)"));
  EXPECT_THAT(first.report(), testing::Not(HasSubstr("in flight (default)")));
  ASSERT_EQ(files().size(), 1U);
  EXPECT_TRUE(files()[0].filename().string().starts_with("shm-"));
  const auto kept = read_file(files()[0]);

  Server second(options());
  make_calls(second, 3);
  EXPECT_EQ(second.stop(), 0);
  EXPECT_THAT(second.report(), HasSubstr("(kept)"));
  EXPECT_THAT(second.log(), testing::Not(HasSubstr(" is measured: ")));
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(read_file(files()[0]), kept);
}

TEST_F(GrpcTuning, TurnedOffNothingIsMeasured) {
  Server server({.logs = true, .environment = {{"FERRY_TUNING", "off"}, {"FERRY_LOG", "info"}}});
  make_calls(server, 20);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.report(), HasSubstr("eager up to 8192 bytes (default)"));
  EXPECT_THAT(server.log(), testing::Not(HasSubstr("measured")));
}

}  // namespace
