#include <signal.h>

#include <thread>

#include "tests/contract/mail_echo.h"
#include "tests/contract/peer.h"

namespace ferry::contract {
namespace {

// Messages that cross between two processes, or two machines.
class TwoProcessMail : public TwoProcessTest {
 protected:
  // Gives the order; the answer comes at the end.
  void begin(const std::string& what, std::uint64_t rounds, WaitMode mode) {
    auto text = fmt::format("{} {} {}", what, rounds, static_cast<int>(mode));
    must(channel_.send(std::as_bytes(std::span(text)), {.deadline = soon()}));
  }
  void expect_end() {
    std::vector<std::byte> answer(channel_.capabilities().max_message);
    auto size = must(channel_.receive(answer, soon()));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(answer.data()), size), "ok");
  }
};

TEST_F(TwoProcessMail, MessagesOfEverySizeComeBack) {
  start();
  for (auto mode : {WaitMode::kAdaptive, WaitMode::kSleep}) {
    auto count = static_cast<std::uint64_t>(std::max(4, rounds(80)));
    begin("mail", count, mode);
    MailEnd end(*device_, channel_);
    for (std::uint64_t round = 0; round < count; ++round) {
      end.send(round, round, mode);
      ASSERT_EQ(end.take(round, round + kMailEchoed, mode), "ok");
    }
    expect_end();
  }
}

// Neither end receives while it sends, and no buffer holds what they send.
TEST_F(TwoProcessMail, BothSendMoreThanEveryBufferAtOnce) {
  start();
  auto count = static_cast<std::uint64_t>(rounds(10));
  begin("cross", count, WaitMode::kAdaptive);
  MailEnd end(*device_, channel_);
  for (std::uint64_t round = 0; round < count; ++round) {
    end.send(MailEnd::kLargest, round, WaitMode::kAdaptive);
    ASSERT_EQ(end.take(MailEnd::kLargest, round + kMailEchoed, WaitMode::kAdaptive), "ok");
  }
  expect_end();
}

// Killed at any moment: whoever sends or receives is told, and a new peer is served.
TEST_F(TwoProcessMail, AKilledPeerIsNamedAndANewOneIsServed) {
  if (remote()) GTEST_SKIP() << "the peer on the other machine is still needed";
  for (int attempt = 0; attempt < 3; ++attempt) {
    start();
    begin("mail", 1'000'000, WaitMode::kAdaptive);
    {
      MailEnd end(*device_, channel_);
      std::thread killer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5 + 20 * attempt));
        peer_->signal(SIGKILL);
        peer_->reap();
      });
      auto talk = [&] {
        for (std::uint64_t round = 0; round < 1'000'000; ++round) {
          end.send(round, round, WaitMode::kAdaptive);
          EXPECT_EQ(end.take(round, round + kMailEchoed, WaitMode::kAdaptive), "ok");
        }
      };
      EXPECT_THROW(talk(), std::runtime_error);
      killer.join();
      EXPECT_EQ(code_of(end.box().receive(soon())), Code::kUnavailable);
      EXPECT_EQ(code_of(end.box().send_and_wait(std::span<const std::byte>(), soon())),
                Code::kUnavailable);
    }
    channel_ = {};
  }
}

}  // namespace
}  // namespace ferry::contract
