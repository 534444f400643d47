#include "tests/contract/mail_kit.h"

// What a sender may leave behind when its peer takes nothing.

namespace ferry::contract {
namespace {

class MailLimits : public MailTest {
 protected:
  static constexpr std::uint64_t kLimit = 64 << 10;
  static constexpr MailboxOptions kSmall{.slots = 2, .send_bytes = kLimit};

  // Sends until no more is accepted. Returns how many were.
  std::uint64_t fill(std::vector<Sending>& sendings, std::span<const Bytes> data) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      auto sending = at_a().send(data[i], soon());
      if (sending.poll()) {
        auto ended = sending.wait();
        if (!ended) {
          EXPECT_EQ(code_of(ended), Code::kResourceExhausted);
          return i;
        }
      }
      sendings.push_back(std::move(sending));
    }
    ADD_FAILURE() << "all " << data.size() << " were accepted";
    return data.size();
  }
  static std::vector<Bytes> numbered(std::size_t count, std::size_t bytes) {
    std::vector<Bytes> data;
    for (std::size_t i = 0; i < count; ++i) data.push_back(stamped_bytes(bytes, i));
    return data;
  }
  void expect_all(std::uint64_t count, std::size_t bytes) {
    std::thread other([&] { must(at_a().drain(soon())); });
    for (std::uint64_t i = 0; i < count; ++i) expect_next(at_b(), bytes, i);
    other.join();
  }
};

TEST_F(MailLimits, ASenderThatDoesNotWaitIsToldWhenTooMuchWaits) {
  open();
  open_mail(kSmall, kSmall);
  auto data = numbered(1000, 64);
  for (int round = 0; round < 3; ++round) {
    std::vector<Sending> sendings;
    auto count = fill(sendings, data);
    EXPECT_GT(count, 20U);
    EXPECT_LT(count, 500U);  // less what leaves for the slots meanwhile
    expect_all(count, 64);
    for (auto& sending : sendings) must(sending.wait());
  }
}

// Dropped handles are no way around it.
TEST_F(MailLimits, CopiesOfLargeMessagesAreBounded) {
  open();
  open_mail({.send_bytes = 1 << 20}, {});
  auto before = a().stats().memory.in_use;
  auto data = numbered(100, 100'000);
  std::uint64_t count = 0;
  for (; count < data.size(); ++count) {
    auto sending = at_a().send(data[count], soon());
    if (sending.poll() && !sending.wait()) break;
  }
  EXPECT_GE(count, 5U);
  EXPECT_LE(count, 10U);
  EXPECT_LE(a().stats().memory.in_use - before, std::size_t{2} << 20);
  expect_all(count, 100'000);
  send_stamped(at_a(), 64, 1);
  expect_next(at_b(), 64, 1);
}

TEST_F(MailLimits, AWaitingSenderGoesOnWhenThereIsRoom) {
  open();
  open_mail(kSmall, kSmall);
  auto data = numbered(1000, 64);
  std::vector<Sending> sendings;
  auto count = fill(sendings, data);
  EXPECT_EQ(code_of(at_a().send_and_wait(data[0], in(20ms))), Code::kDeadlineExceeded);
  std::thread other([&] { must(at_a().send_and_wait(data[count], soon())); });
  for (std::uint64_t i = 0; i <= count; ++i) expect_next(at_b(), 64, i);
  other.join();
  for (auto& sending : sendings) must(sending.wait());
}

// Neither end takes anything until both have stopped.
TEST_F(MailLimits, TwoFullEndsGoOn) {
  open();
  open_mail(kSmall, kSmall);
  auto count = static_cast<std::uint64_t>(rounds(500));
  auto talk = [&](Mailbox& box) {
    for (std::uint64_t i = 0; i < count;) {
      auto data = stamped_bytes(1000, i);
      auto sent = box.send(data, soon()).wait();
      if (sent) ++i;
      ASSERT_TRUE(sent || sent.error().code() == Code::kResourceExhausted);
    }
  };
  auto take = [&](Mailbox& box) {
    for (std::uint64_t i = 0; i < count && !HasFailure(); ++i) expect_next(box, 1000, i);
  };
  std::thread first([&] { talk(at_a()); });
  std::thread second([&] { talk(at_b()); });
  std::thread third([&] { take(at_a()); });
  take(at_b());
  first.join();
  second.join();
  third.join();
}

TEST_F(MailLimits, OneThatIsLargerThanTheLimitIsLetInAlone) {
  open();
  open_mail(kSmall, kSmall);
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::thread other([&] { send_stamped(at_a(), 120'000, i); });
    expect_next(at_b(), 120'000, i);
    other.join();
  }
}

TEST_F(MailLimits, NumbersThatCannotBeAreRefused) {
  open();
  open_mail();
  for (std::uint64_t bytes : {UINT64_MAX, UINT64_MAX - 100, std::uint64_t{1} << 60})
    EXPECT_EQ(code_of(at_a().allocate(bytes)), Code::kResourceExhausted) << bytes;
  for (std::uint32_t chunks : {0U, 1025U, UINT32_MAX})
    EXPECT_EQ(code_of(Mailbox::open(room_a(), a(), ab(), {.chunks_in_flight = chunks}, in(10ms))),
              Code::kInvalidArgument)
        << chunks;
  // A deadline may be as far away as anybody likes.
  std::thread other([&] { send_stamped(at_a(), 100, 1); });
  auto message = must(at_b().receive(Deadline::after(Nanos::max())));
  expect_stamped(message, 100, 1);
  other.join();
}

TEST_F(MailLimits, BuffersThatAreGivenOutAreBounded) {
  open();
  open_mail({.send_bytes = 1 << 20}, {});
  auto first = must(at_a().allocate(1 << 20));
  EXPECT_EQ(code_of(at_a().allocate(1000)), Code::kResourceExhausted);
  EXPECT_EQ(code_of(at_a().allocate(1000, in(20ms))), Code::kDeadlineExceeded);
  // What is in it can be sent all the same, with more beside it.
  stamp(first.bytes(), 1);
  auto more = stamped_bytes(50'000, 2);
  Views views{first.bytes(), more};
  auto sending = at_a().send(views, soon());
  first.reset();
  auto message = must(at_b().receive(soon()));
  EXPECT_TRUE(stamped(message.parts()[0], 1));
  EXPECT_TRUE(stamped(message.parts()[1], 2));
  must(sending.wait());
  std::thread other([&] {
    std::this_thread::sleep_for(10ms);
    must(message.release());
  });
  must(at_a().allocate(1 << 20, soon()));
  other.join();
}

}  // namespace
}  // namespace ferry::contract
