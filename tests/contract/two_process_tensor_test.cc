#include <signal.h>

#include <thread>

#include "tests/contract/echo.h"
#include "tests/contract/peer.h"

namespace ferry::contract {
namespace {

// Tensors that cross between two processes, or two machines, and come back.
class TwoProcessTensors : public TwoProcessTest {
 protected:
  // Gives the order and takes the peer's ticket.
  transfer::Ticket begin(const std::string& what, const transfer::Ticket& mine) {
    return ticket_in(order(channel_, what + " " + to_hex(mine.to_wire())));
  }
  void expect_end() {
    std::vector<std::byte> answer(channel_.capabilities().max_message);
    auto size = must(channel_.receive(answer, soon()));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(answer.data()), size), "ok");
  }
};

TEST_F(TwoProcessTensors, StaticOnesComeBack) {
  start();
  for (auto mode : {WaitMode::kAdaptive, WaitMode::kSleep}) {
    for (std::int64_t bytes : {0L, 8L, 4096L, 100'001L, 2L << 20}) {
      SCOPED_TRACE(bytes);
      auto count = static_cast<std::uint64_t>(rounds(bytes > 1'000'000 ? 10 : 100));
      auto spec = u8_spec(bytes);
      auto receiver = must(transfer::StaticReceiver::open(*device_, channel_, spec));
      auto ticket = begin(fmt::format("static {} {} {}", bytes, count, static_cast<int>(mode)),
                          receiver.ticket());
      auto sender = must(transfer::StaticSender::open(*device_, channel_, ticket, spec));
      for (std::uint64_t round = 1; round <= count; ++round) {
        auto out = must(sender.output());
        EXPECT_EQ(sender.output_in_place(), channel_.capabilities().maps_peer);
        stamp(out.bytes(), round);
        must(sender.send(out, soon()));
        auto arrival = must(receiver.receive(soon(), mode));
        ASSERT_TRUE(stamped(arrival.bytes(), round + kEchoed)) << round;
      }
      expect_end();
    }
  }
}

TEST_F(TwoProcessTensors, DynamicOnesComeBack) {
  start();
  for (auto mode : {WaitMode::kAdaptive, WaitMode::kSleep}) {
    auto count = static_cast<std::uint64_t>(rounds(200));
    auto any = u8_spec(-1);
    auto receiver = must(transfer::DynamicReceiver::open(*device_, channel_, any, echo_options()));
    auto ticket =
        begin(fmt::format("dynamic {} {}", count, static_cast<int>(mode)), receiver.ticket());
    auto sender = must(transfer::DynamicSender::open(*device_, channel_, ticket, any));
    for (std::uint64_t round = 1; round <= count; ++round) {
      auto out = must(sender.output(u8_spec(static_cast<std::int64_t>(echo_size(round)))));
      stamp(out.bytes(), round);
      must(sender.send(out, soon()));
      auto arrival = must(receiver.receive(soon(), mode));
      ASSERT_EQ(arrival.bytes().size(), echo_size(round));
      ASSERT_TRUE(stamped(arrival.bytes(), round + kEchoed)) << round;
    }
    expect_end();
  }
}

// Killed at any moment: both ends of both protocols are told, and a new peer is served.
TEST_F(TwoProcessTensors, AKilledPeerIsNamedAndANewOneIsServed) {
  if (!settings().connect.empty()) GTEST_SKIP() << "the peer on the other machine is still needed";
  for (int attempt = 0; attempt < 3; ++attempt) {
    start();
    auto any = u8_spec(-1);
    auto receiver = must(transfer::DynamicReceiver::open(*device_, channel_, any, echo_options()));
    auto ticket = begin("dynamic 1000000 0", receiver.ticket());
    auto sender = must(transfer::DynamicSender::open(*device_, channel_, ticket, any));
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5 + 20 * attempt));
      peer_->signal(SIGKILL);
      peer_->reap();
    });
    Status failed;
    for (std::uint64_t round = 1; failed; ++round) {
      auto out = sender.output(u8_spec(static_cast<std::int64_t>(echo_size(round))));
      failed = out ? sender.send(*out, soon()) : tl::unexpected<Error>(out.error());
      if (!failed) break;
      auto arrival = receiver.receive(soon());
      if (!arrival) failed = tl::unexpected<Error>(arrival.error());
    }
    killer.join();
    EXPECT_EQ(code_of(failed), Code::kUnavailable) << failed.error().to_string();
    EXPECT_FALSE(receiver.receive(in(1s)));
    channel_ = {};
  }
}

}  // namespace
}  // namespace ferry::contract
