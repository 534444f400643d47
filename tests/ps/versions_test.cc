#include "ferry/bootstrap/dial.h"
#include "ferry/ps/wire/protocol_version_internal.h"
#include "ferry/ps/wire/rpc_internal.h"
#include "tests/ps/kit.h"

// What docs/versions.md and docs/wire/ps.md promise to a program of another release.

namespace ferry::ps::testing {
namespace {

class OtherReleases : public ::testing::Test {
 protected:
  OtherReleases()
      : device_(must(fabric::Device::open(control_options(device_options("tcp"))))),
        client_(must(RpcClient::connect(device_, job_.scheduler().endpoint(), soon()))) {}
  // The job has not noticed.
  ~OtherReleases() override {
    auto worker = job_.worker();
    EXPECT_EQ(must(worker.members(soon())).size(), 1U);
  }

  Job job_{"tcp", {}};
  fabric::Device device_;
  std::unique_ptr<RpcClient> client_;
};

// Of the handshake, before anything of the parameter server is said.
TEST_F(OtherReleases, AreRefusedByTheVersionOfTheHandshake) {
  const auto options = device_options("tcp");
  const auto secret = must(bootstrap::Secret::from_text(options.secret));
  const auto endpoint = must(bootstrap::Endpoint::parse(job_.scheduler().endpoint()));
  for (const bool newer : {true, false}) {
    bootstrap::Hello hello;
    hello.device[0] = 1;
    hello.min_version = newer ? bootstrap::kMaxVersion + 1 : 0;
    hello.max_version = newer ? bootstrap::kMaxVersion + 2 : bootstrap::kMinVersion - 1;
    const auto dialled = bootstrap::dial(endpoint, secret, hello, soon());
    ASSERT_FALSE(dialled) << "newer: " << newer;
    EXPECT_EQ(dialled.error().code(), Code::kFailedPrecondition) << dialled.error().message();
    EXPECT_NE(dialled.error().message().find("no common protocol version"), std::string::npos)
        << dialled.error().message();
  }
}

TEST_F(OtherReleases, AreToldWhichQuestionIsNotKnown) {
  const auto answer = client_->call(static_cast<Ask>(4711), {}, soon());
  EXPECT_EQ(code_of(answer), Code::kUnimplemented);
  EXPECT_NE(answer.error().message().find("4711"), std::string::npos) << answer.error().message();
}

// A release that is older, one that is newer, and those that had no version yet.
TEST_F(OtherReleases, AreRefusedByTheVersionOfTheParameterServer) {
  struct Case {
    std::uint32_t version;
    const char* says;
  };
  for (const auto what : {Ask::kJoinServer, Ask::kJoinWorker, Ask::kBackServer, Ask::kBackWorker}) {
    const bool server = what == Ask::kJoinServer || what == Ask::kBackServer;
    const std::string peer = server ? "server" : "worker";
    for (const auto& [version, says] : {Case{kProtocolVersion - 1, "update the PEER"},
                                        Case{kProtocolVersion + 1, "update the scheduler"}}) {
      Bytes body;
      bootstrap::Encoder(body).u32(kProtocolMagic).u32(version).u64(0x1122334455667788);
      const auto answer = client_->call(what, body, soon());
      EXPECT_EQ(code_of(answer), Code::kFailedPrecondition) << version;
      std::string advice = says;
      if (const auto at = advice.find("PEER"); at != std::string::npos) advice.replace(at, 4, peer);
      const auto& text = answer.error().message();
      const auto both = "the scheduler speaks version " + std::to_string(kProtocolVersion) +
                        " of the parameter server's protocol, the " + peer + " version " +
                        std::to_string(version);
      EXPECT_NE(text.find(both), std::string::npos) << text;
      EXPECT_NE(text.find(advice), std::string::npos) << text;
    }
  }
  Bytes place;
  bootstrap::Encoder out(place);
  put(out, ServerPlace{"a:1", "b:2", 1});
  Bytes rank;
  bootstrap::Encoder(rank).u32(~0U);
  for (const auto& [what, body] : {std::pair{Ask::kJoinServer, place}, {Ask::kJoinWorker, rank}}) {
    const auto answer = client_->call(what, body, soon());
    EXPECT_EQ(code_of(answer), Code::kFailedPrecondition);
    EXPECT_NE(answer.error().message().find("names none"), std::string::npos)
        << answer.error().message();
  }
}

// Of the answer of a scheduler that takes other versions, too.
TEST(Versions, AnAnswerOfAnotherVersionIsRefused) {
  Bytes bytes;
  bootstrap::Encoder(bytes).u32(kProtocolMagic).u32(kProtocolVersion + 1).u32(0);
  bootstrap::Decoder in(bytes);
  const auto welcome = get_welcome(in);
  EXPECT_EQ(code_of(welcome), Code::kFailedPrecondition);
  EXPECT_NE(welcome.error().message().find("update the worker"), std::string::npos)
      << welcome.error().message();
}

TEST_F(OtherReleases, AreToldThatAMessageHasAnotherForm) {
  Bytes place;
  bootstrap::Encoder out(place);
  put_protocol_version(out);
  put(out, ServerPlace{"a:1", "b:2", 1});
  auto longer = place;
  longer.push_back(std::byte{1});  // a field that a later release may add
  auto shorter = place;
  shorter.pop_back();
  for (const auto& body : {longer, shorter}) {
    const auto answer = client_->call(Ask::kJoinServer, body, soon());
    EXPECT_EQ(code_of(answer), Code::kInvalidArgument) << body.size();
    EXPECT_NE(answer.error().message().find("malformed"), std::string::npos)
        << answer.error().message();
  }
}

}  // namespace
}  // namespace ferry::ps::testing
