#include "ferry/bootstrap/dial.h"
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

TEST_F(OtherReleases, AreToldThatAMessageHasAnotherForm) {
  Bytes place;
  bootstrap::Encoder out(place);
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
