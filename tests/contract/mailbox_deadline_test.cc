#include "tests/contract/mail_kit.h"

// Sends whose deadlines come, and what is left of them.

namespace ferry::contract {
namespace {

class MailDeadlines : public MailTest {
 protected:
  // Fills all slots, so that one more message waits.
  void fill_slots() {
    for (std::uint64_t i = 0; i < MailboxOptions{}.slots; ++i) send_stamped(at_a(), 100, i);
  }
};

TEST_F(MailDeadlines, DrainEndsWhenTheDeadlinesOfSendsHaveCome) {
  open();
  open_mail();
  fill_slots();
  auto small = stamped_bytes(100, 1);
  auto large = stamped_bytes(kMiB, 1);
  auto waits = at_a().send(small, in(50ms));
  must(at_a().drain(soon()));
  EXPECT_EQ(code_of(waits.wait()), Code::kDeadlineExceeded);
  for (std::uint64_t i = 0; i < MailboxOptions{}.slots; ++i) expect_next(at_b(), 100, i);
  auto announced = at_a().send(large, in(50ms));
  must(at_a().drain(soon()));
  EXPECT_EQ(code_of(announced.wait()), Code::kDeadlineExceeded);
}

TEST_F(MailDeadlines, ASendThatNobodyAsksAboutEndsWhileItsMailboxWaits) {
  open();
  open_mail();
  auto large = stamped_bytes(kMiB, 1);
  { auto dropped = at_a().send(large, in(50ms)); }
  EXPECT_EQ(code_of(at_a().receive(in(200ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(at_a().drain({})), Code::kOk);
  { auto dropped = at_a().send(large, in(50ms)); }
  Mailbox* boxes[] = {&at_a()};
  EXPECT_EQ(code_of(room_a().wait_any(boxes, in(200ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(at_a().drain({})), Code::kOk);
}

TEST_F(MailDeadlines, BytesThatHaveLandedStayWhenTheSenderGivesUp) {
  open();
  MailboxOptions slow{.eager_threshold = 64, .chunk_bytes = 64 << 10, .chunks_in_flight = 1};
  open_mail(slow, slow);
  auto data = stamped_bytes(8 * kMiB, 3);
  auto sending = at_a().send(data, in(200ms));
  auto message = must(at_b().receive_begun(soon()));
  must(message.wait_bytes(128 << 10, soon()));
  EXPECT_EQ(code_of(sending.wait()), Code::kDeadlineExceeded);
  EXPECT_FALSE(message.wait_bytes(message.bytes(), soon()));
  auto landed = message.parts()[0].first(message.landed());
  EXPECT_GE(landed.size(), std::size_t{128} << 10);
  EXPECT_TRUE(std::equal(landed.begin(), landed.end(), data.begin()));
}

// It stood first in line when it was refused.
TEST_F(MailDeadlines, AMessageThatIsRefusedMakesWayForOtherMailboxes) {
  auto poor = device_options();
  poor.budget_bytes = 40 * kMiB;
  open(device_options(), poor);
  open_rooms({}, {.budget_bytes = 2 * kMiB});
  open_mail();
  auto ends = connect_more(a(), b());
  auto other = open_ends(ends.ab, ends.ba);
  auto data = stamped_bytes(kMiB + 1000, 1);
  auto first = at_a().send(data, soon());
  auto held = must(at_b().receive(soon()));
  Bytes huge(64 * kMiB);
  auto refused = other.a->send(huge, soon());
  for (auto deadline = soon(); other.b->stats().heard == 0 && !deadline.expired();)
    EXPECT_FALSE(must(other.b->poll()));
  must(held.release());
  EXPECT_FALSE(must(other.b->poll()));
  EXPECT_EQ(code_of(refused.wait()), Code::kResourceExhausted);
  must(first.wait());
  auto again = at_a().send(data, soon());
  expect_next(at_b(), data.size(), 1);
  must(again.wait());
}

}  // namespace
}  // namespace ferry::contract
