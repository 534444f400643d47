#pragma once

#include <algorithm>
#include <thread>
#include <utility>

#include "ferry/mail/mailbox.h"
#include "tests/contract/fixture.h"

// What the tests of mailboxes share.

namespace ferry::contract {

using mail::Mailbox;
using mail::MailboxOptions;
using mail::MailRoom;
using mail::MailRoomOptions;
using mail::Message;
using mail::Sending;

constexpr std::size_t kMiB = std::size_t{1} << 20;

using Bytes = std::vector<std::byte>;
using Views = std::vector<std::span<const std::byte>>;

// Both ends of one mailbox.
struct MailPair {
  std::optional<Mailbox> a;
  std::optional<Mailbox> b;
};

class MailTest : public ContractTest {
 protected:
  void TearDown() override {
    mail_ = {};
    room_a_.reset();
    room_b_.reset();
    ContractTest::TearDown();
  }

  void open_rooms(MailRoomOptions room_a = {}, MailRoomOptions room_b = {}) {
    room_a_.emplace(must(MailRoom::open(a(), room_a)));
    room_b_.emplace(must(MailRoom::open(b(), room_b)));
  }
  // Each end waits for the other, so one of them needs a thread.
  MailPair open_ends(Channel& ab, Channel& ba, MailboxOptions at_a = {}, MailboxOptions at_b = {}) {
    MailPair made;
    std::thread other(
        [&] { made.a.emplace(must(Mailbox::open(*room_a_, a(), ab, at_a, soon()))); });
    auto opened = Mailbox::open(*room_b_, b(), ba, at_b, soon());
    other.join();
    made.b.emplace(must(std::move(opened)));
    return made;
  }
  void open_mail(MailboxOptions at_a = {}, MailboxOptions at_b = {}) {
    if (!room_a_) open_rooms();
    mail_ = open_ends(ab(), ba(), at_a, at_b);
  }

  static Bytes stamped_bytes(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    stamp(bytes, seed);
    return bytes;
  }
  // A message of one part.
  static void expect_stamped(const Message& message, std::size_t size, std::uint64_t seed) {
    ASSERT_EQ(message.parts().size(), 1U);
    ASSERT_EQ(message.bytes(), size);
    EXPECT_TRUE(stamped(message.parts()[0], seed)) << size << " bytes, seed " << seed;
  }
  static void expect_next(Mailbox& box, std::size_t size, std::uint64_t seed,
                          WaitMode mode = WaitMode::kAdaptive) {
    auto message = must(box.receive(soon(), mode));
    expect_stamped(message, size, seed);
    EXPECT_EQ(code_of(message.release()), Code::kOk);
  }
  static void send_stamped(Mailbox& box, std::size_t size, std::uint64_t seed) {
    must(box.send_and_wait(stamped_bytes(size, seed), soon()));
  }

  Mailbox& at_a() { return *mail_.a; }
  Mailbox& at_b() { return *mail_.b; }
  MailRoom& room_b() { return *room_b_; }
  MailRoom& room_a() { return *room_a_; }
  MailPair& mail() { return mail_; }

 private:
  std::optional<MailRoom> room_a_;
  std::optional<MailRoom> room_b_;
  MailPair mail_;
};

}  // namespace ferry::contract
