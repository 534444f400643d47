#include "tests/contract/mail_kit.h"

// A mailbox that is closed while its channel lives on.

namespace ferry::contract {
namespace {

class MailClosing : public MailTest {
 protected:
  template <class T>
  static void expect_closed(const Result<T>& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Code::kUnavailable);
    EXPECT_NE(result.error().message().find("closed its mailbox"), std::string::npos)
        << result.error().message();
  }
};

TEST_F(MailClosing, WhatWasSentIsDeliveredAndTheEndIsNamed) {
  open();
  open_mail();
  std::thread other([&] {
    for (std::uint64_t i = 0; i < 5; ++i) send_stamped(at_a(), i == 2 ? 300'000 : 100, i);
    mail().a.reset();
  });
  // The large one needs us; the rest comes before or after the end.
  for (std::uint64_t i = 0; i < 3; ++i) expect_next(at_b(), i == 2 ? 300'000 : 100, i);
  other.join();
  for (std::uint64_t i = 3; i < 5; ++i) expect_next(at_b(), 100, i);
  expect_closed(at_b().receive(soon()));
  expect_closed(at_b().receive(soon()));
  expect_closed(at_b().send_and_wait(Bytes(10), soon()));
  expect_closed(at_b().send_and_wait(Bytes(300'000), soon()));
  std::array<Mailbox*, 1> boxes{&at_b()};
  EXPECT_EQ(must(room_b().wait_any(boxes, soon())), 0U);
  EXPECT_TRUE(ab().alive() && ba().alive());
}

TEST_F(MailClosing, WhoeverSleepsIsWoken) {
  open();
  for (auto mode : {WaitMode::kSleep, WaitMode::kAdaptive}) {
    open_mail({.slots = 1}, {.slots = 1});
    Bytes data(300'000);
    auto sending = at_b().send(data, soon());
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      mail().a.reset();
    });
    expect_closed(at_b().receive(soon(), mode));
    expect_closed(sending.wait(mode));
    other.join();
    mail().b.reset();
  }
}

// A large message that nobody has taken is lost with its sender; what came after it is not.
TEST_F(MailClosing, WhatWasOnlyAnnouncedDoesNotCome) {
  open();
  open_mail();
  auto large = stamped_bytes(1 << 20, 1);
  auto sending = at_a().send(large, soon());
  send_stamped(at_a(), 100, 2);
  sending = {};
  mail().a.reset();
  expect_next(at_b(), 100, 2);
  expect_closed(at_b().receive(soon()));
  // A read that was under way gives its memory back when it has ended.
  for (auto deadline = soon(); room_b().bytes_in_use() != 0 && !deadline.expired();)
    (void)at_b().poll();
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

TEST_F(MailClosing, AMessageInUseStaysAsItIs) {
  open();
  open_mail();
  send_stamped(at_a(), 100, 1);
  auto message = must(at_b().receive(soon()));
  mail().a.reset();
  expect_closed(at_b().receive(soon()));
  expect_stamped(message, 100, 1);
  must(message.release());
}

// What the receiver holds where the sender built it is not built upon anew, whatever the sender
// closes.
class MailClosingInPlace : public MailTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Of, MailClosingInPlace, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "MailboxAndChannel" : "Mailbox");
});

TEST_P(MailClosingInPlace, AMessageStaysAsItIs) {
  open();
  open_mail();
  Message message;
  {
    auto buffer = must(room_a().allocate(kMiB));
    stamp(buffer.bytes(), 1);
    auto sending = at_a().send(buffer.bytes(), soon());
    message = must(at_b().receive(soon()));
    must(sending.wait());
  }
  mail().a.reset();
  if (GetParam()) ab().close();
  for (int i = 0; i < 4; ++i) {
    auto other = must(room_a().allocate(kMiB));
    stamp(other.bytes(), 2);
    std::this_thread::sleep_for(20ms);
  }
  expect_stamped(message, kMiB, 1);
  (void)message.release();
}

TEST_F(MailClosing, TheChannelCarriesAnotherMailboxAfterwards) {
  open();
  for (std::uint64_t i = 0; i < 5; ++i) {
    open_mail();
    send_stamped(at_a(), 100, i);
    expect_next(at_b(), 100, i);
    mail().a.reset();
    expect_closed(at_b().receive(soon()));
    mail().b.reset();
  }
}

}  // namespace
}  // namespace ferry::contract
