#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/grpc/kit.h"
#include "tests/grpc/serve.h"

// Messages that are too large, and memory that is used up; the same assertions on TCP and with the
// plug-in.

namespace {

using ferry::test::Echo;
using testing::HasSubstr;
using testing::Not;

// Bytes over 2 GiB.
constexpr std::size_t kTooLarge = (std::size_t{1} << 31) + 4096;

// Why such messages cannot be tried here; empty: they can.
std::string no_room_for_large() {
#ifdef FERRY_SANITIZED
  return "a sanitizer makes of 2 GiB too much";
#endif
  constexpr long kNeededKiB = 12L << 20;
  std::ifstream in("/proc/meminfo");
  for (std::string name, rest; in >> name && std::getline(in, rest);)
    if (name == "MemAvailable:" && std::stol(rest) >= kNeededKiB) return "";
  return "less than 12 GiB of memory are free";
}

// One mebibyte, over and over.
grpc::ByteBuffer too_large() {
  std::vector<grpc::Slice> slices(kTooLarge >> 20, grpc::Slice(std::string(1 << 20, '\0')));
  slices.emplace_back(std::string(kTooLarge % (1 << 20), '\0'));
  return {slices.data(), slices.size()};
}

// It arrives, and protobuf does not take it. (A generated stub that is asked to send one ends the
// process, by an assertion in gRPC's headers, before it comes to any endpoint.)
TEST(GrpcLimits, AMessageOver2GiBIsNotParsed) {
  if (const auto why = no_room_for_large(); !why.empty()) GTEST_SKIP() << why;
  Server server;
  const auto channel = server.channel();
  grpc::ByteBuffer said;
  const auto status = call_raw(channel, "/ferry.test.Echo/Unary", too_large(), &said);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
  EXPECT_EQ(said.Length(), 0U);
  auto stub = Echo::NewStub(channel);
  EXPECT_TRUE(call_echo(*stub, 1 << 20).ok());
  EXPECT_EQ(server.stop(), 0);
}

// How often a text has another in it.
std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

struct Budget {
  const char* provider;
  const char* client;  // MiB
  const char* server;
};

// What was said when a client kept 8 messages of so many MiB.
struct Kept {
  std::string client_report;
  std::string client_log;
  std::string server_report;
  std::string server_log;
};

Kept keep_many(const Budget& budget, int mib = 3) {
  const auto environment = [&budget](const char* memory) -> Environment {
    return {{"FERRY_GRPC_MEMORY", memory},
            {"FERRY_GRPC_PROVIDER", budget.provider},
            {"FERRY_GRPC_PATIENCE", "10"},
            {"FERRY_LOG", "info"}};
  };
  Server server({.logs = true, .environment = environment(budget.server)});
  const auto files = scratch() + "/keeper-" + std::to_string(server.pid());
  auto settings = environment(budget.client);
  settings.emplace_back("FERRY_GRPC_STATS", files + ".report");
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto client = start_program(logging_to(files + ".log", {self, "--keep", server.address(),
                                                                "8", std::to_string(mib << 20)}),
                                    settings);
  EXPECT_EQ(wait_for(client.pid), 0) << read_line(client.output);
  ::close(client.input);
  ::close(client.output);
  EXPECT_EQ(server.stop(), 0);
  return {read_file(files + ".report"), read_file(files + ".log"), server.report(), server.log()};
}

// The client holds all that the server has to send from.
TEST(GrpcLimits, ASenderWithoutMemorySendsInPieces) {
  const auto kept = keep_many({"shm", "256", "4"});
  if (!has_plugin()) return;
  EXPECT_THAT(kept.server_report, HasSubstr("sent in small pieces, the first because"));
  EXPECT_EQ(count_of(kept.server_log, "is copied in small pieces"), 1U) << kept.server_log;
  EXPECT_THAT(kept.client_report, HasSubstr(" by shm: "));
}

TEST(GrpcLimits, AReceiverThatHoldsMuchCopies) {
  for (const char* provider : {"shm", "tcp"}) {
    const auto kept = keep_many({provider, "4", "256"});
    if (!has_plugin()) continue;
    EXPECT_THAT(kept.client_report, HasSubstr(std::string(" by ") + provider + ": "));
    EXPECT_THAT(kept.client_report, Not(HasSubstr("(0 messages over the budget)")));
    EXPECT_EQ(count_of(kept.client_log, "further ones are copied"), 1U) << kept.client_log;
  }
}

// More in one slice than there is memory that peers can read.
TEST(GrpcLimits, SlicesOfOrdinaryMemoryAreSentToo) {
  const auto kept = keep_many({"shm", "4", "4"}, 5);
  if (!has_plugin()) return;
  EXPECT_THAT(kept.client_report, HasSubstr("slices were made where peers cannot read"));
}

}  // namespace
