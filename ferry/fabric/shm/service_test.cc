#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "ferry/fabric/shm/peer_internal.h"
#include "ferry/fabric/shm/service_internal.h"

namespace ferry::fabric::shm {
namespace {

using std::chrono::milliseconds;

class StandInSession final : public PeerSession {
 public:
  const PeerIdentity& identity() const override { return identity_; }
  std::uint32_t number() const override { return 7; }
  std::uint32_t number_at_peer() const override { return 8; }
  std::span<const std::byte, 32> session_key() const override { return key_; }
  Result<std::vector<std::byte>> call(std::string_view, std::span<const std::byte>,
                                      Deadline) override {
    return fail(Code::kUnimplemented, "nobody is there");
  }
  void tell(std::string_view, std::span<const std::byte>) override {}
  void peer_lost(Error) override { lost = true; }
  void lane_broken(Lane&, Error) override {}

  std::atomic<bool> lost{false};

 private:
  const PeerIdentity identity_{};
  const std::array<std::byte, 32> key_{};
};

bool becomes(const std::atomic<bool>& flag, milliseconds limit) {
  for (auto deadline = Deadline::after(limit); !flag && !deadline.expired();)
    std::this_thread::sleep_for(milliseconds(1));
  return flag;
}

// What a peer may have mapped is out of use when its end of the local socket is closed, not before.
class Retired : public ::testing::Test {
 protected:
  Retired() {
    service_ = Service::start(*listen_local("ferry-test-" + std::to_string(getpid())),
                              Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                              [](Fd, const HelloPacket&, std::vector<Fd>) {});
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    theirs_ = Fd(ends[1]);
    service_->add_link(Fd(ends[0]), peer_);
  }
  ~Retired() override { service_->close(); }

  void revoke() {
    GrantTable::Grant grant;
    grant.key = 1;
    grant.mappable = true;
    service_->revoke(grant, [this] { quiet_ = true; });
  }
  void expect_quiet_at_the_end_only() {
    EXPECT_FALSE(becomes(quiet_, milliseconds(100))) << "the peer may still have it mapped";
    theirs_.reset();
    EXPECT_TRUE(becomes(quiet_, std::chrono::seconds(20)));
  }

  const std::shared_ptr<StandInSession> session_ = std::make_shared<StandInSession>();
  std::shared_ptr<Peer> peer_ = std::make_shared<Peer>(session_);
  std::shared_ptr<Service> service_;
  Fd theirs_;
  std::atomic<bool> quiet_{false};
};

TEST_F(Retired, WhileAPeerThatBrokeTheProtocolLives) {
  ASSERT_EQ(::send(theirs_.get(), "nonsense", 8, 0), 8);
  EXPECT_TRUE(becomes(session_->lost, std::chrono::seconds(20)));
  revoke();
  expect_quiet_at_the_end_only();
}

TEST_F(Retired, WhenAPeerBreaksTheProtocolInsteadOfAnAnswer) {
  revoke();
  ASSERT_EQ(::send(theirs_.get(), "nonsense", 8, 0), 8);
  EXPECT_TRUE(becomes(session_->lost, std::chrono::seconds(20)));
  expect_quiet_at_the_end_only();
}

// As for silence: its session has ended, and its process lives on.
TEST_F(Retired, WhileAPeerThatWasGivenUpLives) {
  peer_->forget();
  peer_.reset();
  revoke();
  expect_quiet_at_the_end_only();
}

}  // namespace
}  // namespace ferry::fabric::shm
