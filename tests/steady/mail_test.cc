#include <array>
#include <optional>
#include <stdexcept>
#include <thread>

#include "ferry/mail/mailbox.h"
#include "tests/steady/kit.h"

namespace ferry::steady {
namespace {

using mail::Mailbox;
using mail::MailRoom;

// Receives what is being sent. One thread is both ends: the sender is seen to while the receiver
// waits.
void take(mail::Sending& sending, Mailbox& to) {
  const auto limit = soon();
  auto message = must(to.poll());
  while (!message && !limit.expired()) {
    (void)sending.poll();
    message = must(to.poll());
  }
  if (!message) throw std::runtime_error("no message came");
  must(message->release());
  must(sending.wait());
}

class Mail : public EachProvider {
 protected:
  // Mailboxes at both ends, and one round between them.
  using Round = std::function<void(Mailbox& from, Mailbox& to)>;
  static void expect_free_round(const Round& round, const Excuse& excuse = {}) {
    const std::string provider = GetParam();
    auto scenario = [&](const Repeat& repeat) {
      Pair pair(provider);
      auto room_a = must(MailRoom::open(pair.a));
      auto room_b = must(MailRoom::open(pair.b));
      std::optional<Mailbox> at_a;
      std::thread other(
          [&] { at_a.emplace(must(Mailbox::open(room_a, pair.a, pair.ab, {}, soon()))); });
      auto at_b = must(Mailbox::open(room_b, pair.b, pair.ba, {}, soon()));
      other.join();
      repeat([&] { round(*at_a, at_b); });
    };
    expect_free(provider, scenario, excuse);
  }
};
INSTANTIATE_TEST_SUITE_P(On, Mail, ::testing::Values("shm", "tcp", "fake"), provider_name);

TEST_P(Mail, Small) {
  expect_free_round([](Mailbox& from, Mailbox& to) {
    const std::array<std::byte, 100> message{};
    auto sending = from.send(message, soon());
    take(sending, to);
  });
}

// From memory of the mailbox; other memory is registered for each message.
TEST_P(Mail, Large) {
  expect_free_round(
      [](Mailbox& from, Mailbox& to) {
        auto message = must(from.allocate(std::size_t{80} << 10));
        auto sending = from.send(message.bytes(), soon());
        must(must(to.receive(soon())).release());
        must(sending.wait());
      },
      {.allocations = 9,
       .reason = "lists of a large message's parts, and its announcement's encoding"});
}

}  // namespace
}  // namespace ferry::steady
