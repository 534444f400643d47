#include "ferry/mail/mailbox.h"

#include <array>
#include <atomic>
#include <random>

#include "tests/contract/mail_kit.h"

namespace ferry::contract {
namespace {

class Mailboxes : public MailTest {};

class MailWays : public MailTest, public ::testing::WithParamInterface<WaitMode> {
 protected:
  // Messages that are built in memory of the library's.
  template <class Allocate>
  void send_from(Allocate allocate, WaitMode mode) {
    for (std::size_t bytes : {1UL, 4096UL, 65'537UL, 9 * kMiB + 8}) {
      std::thread other([&] {
        for (std::uint64_t i = 1; i <= 5; ++i) {
          auto buffer = allocate(bytes);
          stamp(buffer.bytes(), i);
          must(at_a().send_and_wait(buffer.bytes(), soon(), mode));
        }
      });
      for (std::uint64_t i = 1; i <= 5 && !HasFailure(); ++i) expect_next(at_b(), bytes, i, mode);
      other.join();
      ASSERT_FALSE(HasFailure()) << bytes;
    }
    EXPECT_EQ(at_a().stats().copies, 0U);
    EXPECT_EQ(at_a().stats().registered, 0U);
  }
};

TEST_P(MailWays, EverySizeArrivesOnceWholeAndInOrder) {
  auto mode = GetParam();
  open();
  MailboxOptions options{.spins = mode == WaitMode::kSpin};
  open_mail(options, options);
  for (std::size_t bytes : {0UL, 1UL, 64UL, 8192UL, 8193UL, 65'537UL, kMiB, 9 * kMiB + 8}) {
    auto count = static_cast<std::uint64_t>(rounds(bytes > 100'000 ? 4 : 200));
    std::thread other([&] {
      for (std::uint64_t i = 1; i <= count; ++i) {
        auto data = stamped_bytes(bytes, i);
        must(at_a().send_and_wait(data, soon(), mode));
      }
    });
    for (std::uint64_t i = 1; i <= count && !HasFailure(); ++i) expect_next(at_b(), bytes, i, mode);
    other.join();
    ASSERT_FALSE(HasFailure()) << bytes;
  }
}

TEST_P(MailWays, EverySizeFromRegisteredMemory) {
  auto mode = GetParam();
  open();
  MailboxOptions options{.spins = mode == WaitMode::kSpin};
  open_mail(options, options);
  send_from([this](std::size_t bytes) { return must(at_a().allocate(bytes)); }, mode);
  bool maps = ab().capabilities().maps_peer;
  EXPECT_EQ(at_b().stats().in_place, maps ? 10U : 0U);
  EXPECT_EQ(at_b().stats().reads > 0, !maps);
}

// One buffer, sent to several peers' mailboxes from memory that is of none of them.
TEST_P(MailWays, EverySizeFromMemoryOfTheRoom) {
  auto mode = GetParam();
  open();
  MailboxOptions options{.eager_threshold = 8192, .spins = mode == WaitMode::kSpin};
  open_mail(options, options);
  send_from([this](std::size_t bytes) { return must(room_a().allocate(bytes)); }, mode);
  bool maps = ab().capabilities().maps_peer;
  EXPECT_EQ(at_b().stats().in_place, maps ? 10U : 0U);
}

// Its bytes stay until the receiver has let go of them, whatever the sender does.
TEST_F(Mailboxes, MemoryOfTheRoomIsNotUsedAnewTooEarly) {
  open();
  open_mail();
  constexpr std::size_t kBytes = 300'000;
  std::vector<Message> held;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    auto buffer = must(room_a().allocate(kBytes));
    stamp(buffer.bytes(), i);
    auto sending = at_a().send(buffer.bytes(), soon());
    buffer.reset();
    held.push_back(must(at_b().receive(soon())));
    must(sending.wait());
  }
  for (std::uint64_t i = 1; i <= 4; ++i) expect_stamped(held[i - 1], kBytes, i);
}

TEST_F(Mailboxes, MemoryOfTheRoomIsBounded) {
  open();
  open_mail();
  auto most = must(room_a().allocate(256 * kMiB - 1000));
  EXPECT_EQ(room_a().allocate(2000).error().code(), Code::kResourceExhausted);
  most.reset();
  EXPECT_TRUE(room_a().allocate(2000));
}

std::string mail_way_name(const ::testing::TestParamInfo<WaitMode>& info) {
  return info.param == WaitMode::kSpin    ? "Spinning"
         : info.param == WaitMode::kSleep ? "Sleeping"
                                          : "Adaptive";
}
INSTANTIATE_TEST_SUITE_P(All, MailWays,
                         ::testing::Values(WaitMode::kSpin, WaitMode::kSleep, WaitMode::kAdaptive),
                         mail_way_name);

// Parts of these sizes, from memory of any kind, as one message.
TEST_F(Mailboxes, ManyPartsArriveAsTheyWere) {
  open();
  open_mail();
  std::vector<std::vector<std::size_t>> lists{
      {}, {0}, {0, 0, 5}, {100, 0, 200'000, 7}, {kMiB, kMiB, 3}, {1, 300'000, 1, 1, 300'000, 0}};
  lists.emplace_back(1024, 3);
  lists.emplace_back(1024, 1000);
  lists.emplace_back(100, 200'000);  // more pieces than an announcement names
  for (const auto& sizes : lists) {
    std::vector<Bytes> parts;
    for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(stamped_bytes(sizes[i], i));
    Views views(parts.begin(), parts.end());
    auto sending = at_a().send(views, soon());
    auto message = must(at_b().receive(soon()));
    ASSERT_EQ(message.parts().size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_EQ(message.parts()[i].size(), sizes[i]);
      EXPECT_TRUE(stamped(message.parts()[i], i)) << sizes.size() << " parts, part " << i;
    }
    must(message.release());
    must(sending.wait());
  }
  Views too_many(1025);
  EXPECT_EQ(code_of(at_a().send_and_wait(too_many, soon())), Code::kInvalidArgument);
}

TEST_F(Mailboxes, PartsOfSeveralKindsOfMemoryInOneMessage) {
  open();
  open_mail();
  auto buffer = must(at_a().allocate(300'000));
  stamp(buffer.bytes().first(200'000), 1);
  stamp(buffer.bytes().subspan(200'000), 2);
  auto small = stamped_bytes(100, 3);
  auto large = stamped_bytes(kMiB, 4);
  Views views{buffer.bytes().first(200'000), small, large, buffer.bytes().subspan(200'000)};
  auto sending = at_a().send(views, soon());
  buffer.reset();  // the send keeps it
  auto message = must(at_b().receive(soon()));
  ASSERT_EQ(message.parts().size(), 4U);
  EXPECT_TRUE(stamped(message.parts()[0], 1));
  EXPECT_TRUE(stamped(message.parts()[1], 3));
  EXPECT_TRUE(stamped(message.parts()[2], 4));
  EXPECT_TRUE(stamped(message.parts()[3], 2));
  must(sending.wait());
  EXPECT_EQ(at_a().stats().copies, 1U);
  EXPECT_EQ(at_a().stats().registered, 1U);
}

// Both directions at once, every message stamped with its number.
TEST_F(Mailboxes, MixedSizesInRandomOrderBothWays) {
  open();
  open_rooms({.budget_bytes = 4 * kMiB}, {.budget_bytes = 4 * kMiB});
  MailboxOptions options{.slots = 4, .chunk_bytes = 64 << 10, .rendezvous = 2};
  open_mail(options, options);
  auto count = static_cast<std::uint64_t>(rounds(300));
  auto size_of = [](std::uint64_t number) {
    std::minstd_rand random(static_cast<unsigned>(number));
    auto kind = random() % 10;
    return static_cast<std::size_t>(random() % (kind < 7 ? 2000 : kind < 9 ? 100'000 : 1'500'000));
  };
  auto send_all = [&](Mailbox& box) {
    for (std::uint64_t i = 1; i <= count; ++i) send_stamped(box, size_of(i), i);
  };
  auto receive_all = [&](Mailbox& box) {
    for (std::uint64_t i = 1; i <= count && !HasFailure(); ++i) expect_next(box, size_of(i), i);
  };
  std::thread first([&] { send_all(at_a()); });
  std::thread second([&] { receive_all(at_a()); });
  std::thread third([&] { send_all(at_b()); });
  receive_all(at_b());
  first.join();
  second.join();
  third.join();
}

TEST_F(Mailboxes, ManyThreadsShareOneMailbox) {
  open();
  open_mail({.slots = 2}, {.slots = 2});
  constexpr std::uint64_t kThreads = 3;
  auto count = static_cast<std::uint64_t>(rounds(200));
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> sum{0};
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < count; ++i)
        send_stamped(at_a(), 8 + (i % 50 == 0 ? 200'000 : i), 1 + t * count + i);
    });
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < count; ++i) {
        auto message = must(at_b().receive(soon()));
        sum += message.bytes();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < count; ++i) expected += 8 + (i % 50 == 0 ? 200'000 : i);
  EXPECT_EQ(sum.load(), expected * kThreads);
}

class MailBothWays : public MailTest, public ::testing::WithParamInterface<bool> {};

// Neither receives while it sends; no buffer holds the messages; no deadlock.
TEST_P(MailBothWays, BothSendMoreThanEveryBufferAndOnlyWait) {
  bool registered = GetParam();
  open();
  open_rooms({.budget_bytes = kMiB}, {.budget_bytes = kMiB});
  open_mail();
  constexpr std::size_t kBytes = 9 * kMiB + 8;
  auto send = [&](Mailbox& box, std::uint64_t seed) {
    if (!registered) return send_stamped(box, kBytes, seed);
    auto buffer = must(box.allocate(kBytes));
    stamp(buffer.bytes(), seed);
    must(box.send_and_wait(buffer.bytes(), soon()));
  };
  for (std::uint64_t i = 1; i <= 3; ++i) {
    std::thread other([&] {
      send(at_a(), i);
      expect_next(at_a(), kBytes, i + 100);
    });
    send(at_b(), i + 100);
    expect_next(at_b(), kBytes, i);
    other.join();
  }
}
INSTANTIATE_TEST_SUITE_P(All, MailBothWays, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Registered" : "Ordinary"; });

TEST_F(Mailboxes, AReceiverThatTakesNothingStopsItsSender) {
  open();
  open_mail({.slots = 4}, {.slots = 4});
  std::uint64_t sent = 0;
  auto deadline = soon();
  Status status;
  while (status && !deadline.expired()) {
    status = at_a().send_and_wait(stamped_bytes(1000, sent + 1), in(20ms));
    if (status) ++sent;
  }
  EXPECT_EQ(code_of(status), Code::kDeadlineExceeded);
  EXPECT_EQ(sent, 4U);
  // What expired is not sent; nothing else is lost.
  for (std::uint64_t i = 1; i <= sent; ++i) expect_next(at_b(), 1000, i);
  send_stamped(at_a(), 1000, 77);
  expect_next(at_b(), 1000, 77);
}

TEST_F(Mailboxes, ALargeMessageThatNobodyTakesIsGivenUp) {
  open();
  open_mail();
  {
    auto data = stamped_bytes(kMiB, 1);
    EXPECT_EQ(code_of(at_a().send_and_wait(data, in(30ms))), Code::kDeadlineExceeded);
  }  // the memory is ours again
  for (std::uint64_t i = 0; i < 20; ++i) {
    send_stamped(at_a(), 10, i);
    expect_next(at_b(), 10, i);
    std::thread other([&] { send_stamped(at_a(), kMiB, i); });
    expect_next(at_b(), kMiB, i);
    other.join();
  }
  EXPECT_EQ(at_b().stats().refused, 1U);
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

TEST_F(Mailboxes, ALateReceiverStillGetsWhatIsInRegisteredMemory) {
  open();
  open_mail();
  auto buffer = must(at_a().allocate(kMiB));
  stamp(buffer.bytes(), 5);
  EXPECT_EQ(code_of(at_a().send_and_wait(buffer.bytes(), in(30ms))), Code::kDeadlineExceeded);
  expect_next(at_b(), kMiB, 5);
}

TEST_F(Mailboxes, MessagesWaitForTheBudget) {
  open();
  open_rooms({}, {.budget_bytes = 2 * kMiB});
  open_mail();
  std::vector<Bytes> data;
  std::vector<Sending> sendings;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    data.push_back(stamped_bytes(kMiB + 1000, i));  // one fits, two do not
    sendings.push_back(at_a().send(data.back(), soon()));
  }
  auto first = must(at_b().receive(soon()));
  EXPECT_LE(room_b().bytes_in_use(), 2 * kMiB);
  EXPECT_EQ(code_of(at_b().receive(in(20ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(at_b().receive_begun(in(5ms))), Code::kDeadlineExceeded);
  expect_stamped(first, kMiB + 1000, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(10ms);
    first = {};  // wakes the receiver
  });
  expect_next(at_b(), kMiB + 1000, 2);
  other.join();
  expect_next(at_b(), kMiB + 1000, 3);
  for (auto& sending : sendings) must(sending.wait());
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

TEST_F(Mailboxes, AMessageOverTheLimitIsRefused) {
  open();
  open_mail({}, {.most_bytes = kMiB});
  EXPECT_EQ(code_of(at_a().send_and_wait(Bytes(kMiB + 1), soon())), Code::kOutOfRange);
  send_stamped(at_a(), 10, 1);
  expect_next(at_b(), 10, 1);
}

// No memory for it, and none will come: the sender is told, and the rest goes on.
TEST_F(Mailboxes, AMessageThatTheDeviceHasNoMemoryForIsRefused) {
  auto poor = device_options();
  poor.budget_bytes = 24 * kMiB;
  open(device_options(), poor);
  open_mail();
  Bytes huge(64 * kMiB);
  auto sending = at_a().send(huge, soon());
  send_stamped(at_a(), 100, 1);
  expect_next(at_b(), 100, 1);
  EXPECT_EQ(code_of(sending.wait()), Code::kResourceExhausted);
  EXPECT_EQ(at_b().stats().refused, 1U);
}

TEST_F(Mailboxes, ManyMailboxesShareARoomFairly) {
  open();
  open_rooms({}, {.budget_bytes = kMiB});  // one message at a time
  constexpr std::size_t kBoxes = 6;
  constexpr std::size_t kEach = 4;
  constexpr std::size_t kBytes = 700'000;
  std::vector<Ends> ends;
  std::vector<MailPair> pairs;
  for (std::size_t i = 0; i < kBoxes; ++i) ends.push_back(connect_more(a(), b()));
  for (auto& end : ends) pairs.push_back(open_ends(end.ab, end.ba));
  std::vector<Bytes> data;
  for (std::size_t i = 0; i < kBoxes; ++i) data.push_back(stamped_bytes(kBytes, i));
  // Until everybody stands in line, the room is full.
  open_mail();
  auto first = at_a().send(data[0], soon());
  auto held = must(at_b().receive(soon()));
  std::vector<Sending> sendings;
  for (std::size_t n = 0; n < kEach; ++n)
    for (std::size_t i = 0; i < kBoxes; ++i) sendings.push_back(pairs[i].a->send(data[i], soon()));
  std::vector<Mailbox*> boxes;
  for (auto& pair : pairs) boxes.push_back(&*pair.b);
  auto deadline = soon();
  for (auto* box : boxes) {
    while (box->stats().heard < kEach && !deadline.expired()) EXPECT_FALSE(must(box->poll()));
  }
  must(held.release());
  std::vector<std::size_t> taken(kBoxes);
  for (std::size_t n = 0; n < kBoxes * kEach; ++n) {
    auto which = must(room_b().wait_any(boxes, soon()));
    auto message = must(boxes[which]->receive(soon()));
    expect_stamped(message, kBytes, which);
    EXPECT_LE(room_b().bytes_in_use(), kMiB);
    ++taken[which];
    auto [least, most] = std::minmax_element(taken.begin(), taken.end());
    EXPECT_LE(*most - *least, 1U);
  }
  must(first.wait());
  for (auto& sending : sendings) must(sending.wait());
  EXPECT_EQ(code_of(room_b().wait_any(boxes, in(10ms))), Code::kDeadlineExceeded);
}

TEST_F(Mailboxes, WaitAnySeesEveryMailbox) {
  open();
  open_rooms();
  std::vector<Ends> ends;
  std::vector<MailPair> pairs;
  for (int i = 0; i < 4; ++i) ends.push_back(connect_more(a(), b()));
  for (auto& end : ends) pairs.push_back(open_ends(end.ab, end.ba));
  std::vector<Mailbox*> boxes;
  for (auto& pair : pairs) boxes.push_back(&*pair.b);
  auto count = static_cast<std::size_t>(rounds(100));
  std::thread other([&] {
    for (std::size_t i = 0; i < count; ++i) {
      send_stamped(*pairs[i % 4].a, 64, i);
      auto answer = must(pairs[i % 4].a->receive(soon()));
    }
  });
  for (std::size_t i = 0; i < count; ++i) {
    auto mode = i % 2 == 0 ? WaitMode::kSleep : WaitMode::kAdaptive;
    auto which = must(room_b().wait_any(boxes, soon(), mode));
    EXPECT_EQ(which, i % 4);
    expect_next(*boxes[which], 64, i);
    send_stamped(*boxes[which], 64, i);
  }
  other.join();
}

TEST_F(Mailboxes, MessagesAreLetGoInAnyOrderByAnyThread) {
  open();
  open_mail({.slots = 8}, {.slots = 8});
  for (int round = 0; round < rounds(20); ++round) {
    std::vector<Message> held;
    std::thread sender([&] {
      for (std::uint64_t i = 0; i < 6; ++i) send_stamped(at_a(), i == 3 ? 300'000 : 50, i);
    });
    for (std::uint64_t i = 0; i < 6; ++i) held.push_back(must(at_b().receive(soon())));
    sender.join();
    std::thread other([&] {
      std::swap(held[0], held[4]);
      std::swap(held[1], held[3]);
      for (std::size_t i = 0; i < 6; i += 2) must(held[i].release());
    });
    other.join();
    held.clear();
  }
  EXPECT_EQ(at_b().stats().received, 6U * static_cast<unsigned>(rounds(20)));
}

TEST_F(Mailboxes, WhatWaitsForASlotGoesOutTogether) {
  open();
  open_mail({.slots = 2}, {.slots = 2});
  std::vector<Bytes> data;
  for (std::uint64_t i = 0; i < 102; ++i) data.push_back(stamped_bytes(64, i));
  std::vector<Sending> sendings;
  for (const auto& bytes : data) sendings.push_back(at_a().send(bytes, soon()));
  EXPECT_EQ(at_a().stats().batches, 2U);
  EXPECT_FALSE(sendings[2].poll());
  std::thread other([&] { must(at_a().drain(soon())); });
  for (std::uint64_t i = 0; i < 102; ++i) expect_next(at_b(), 64, i);
  other.join();
  for (auto& sending : sendings) must(sending.wait());
  auto stats = at_a().stats();
  EXPECT_EQ(stats.sent, 102U);
  EXPECT_EQ(stats.batches, 3U);  // two with one message, one with the rest
  EXPECT_EQ(stats.eager_bytes, 102U * 64);
}

TEST_F(Mailboxes, ALargeMessageIsUsedWhileItArrives) {
  open();
  MailboxOptions options{.chunk_bytes = 64 << 10, .chunks_in_flight = 3};
  open_mail(options, options);
  auto first = stamped_bytes(100'000, 1);
  auto second = stamped_bytes(kMiB, 2);
  Views views{first, second};
  auto sending = at_a().send(views, soon());
  auto message = must(at_b().receive_begun(soon()));
  ASSERT_EQ(message.bytes(), 100'000 + kMiB);
  must(message.wait_bytes(100'000, soon()));
  EXPECT_GE(message.landed(), 100'000U);
  EXPECT_TRUE(stamped(message.parts()[0], 1));
  for (std::size_t at = 0; at <= kMiB; at += kMiB / 8) {
    must(message.wait_bytes(100'000 + at, soon()));
    EXPECT_TRUE(stamped(message.parts()[1].first(at / 8 * 8), 2));
  }
  EXPECT_EQ(message.landed(), message.bytes());
  EXPECT_EQ(code_of(message.wait_bytes(message.bytes() + 1, soon())), Code::kOutOfRange);
  must(sending.wait());
  EXPECT_EQ(at_b().stats().reads, 2U + 16U);
}

TEST_F(Mailboxes, AMessageMayBeLetGoBeforeItIsWhole) {
  open();
  MailboxOptions options{.chunk_bytes = 64 << 10, .chunks_in_flight = 2};
  open_mail(options, options);
  auto data = stamped_bytes(4 * kMiB, 1);
  for (std::uint64_t i = 0; i < 5; ++i) {
    std::thread other([&] {
      must(at_a().send_and_wait(data, soon()));
      send_stamped(at_a(), 8, i);
    });
    must(must(at_b().receive_begun(soon())).release());
    expect_next(at_b(), 8, i);
    other.join();
  }
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

TEST_F(Mailboxes, BuffersAreUsedAgain) {
  open();
  open_mail();
  std::byte* place = nullptr;
  for (std::uint64_t i = 0; i < 10; ++i) {
    auto buffer = must(at_a().allocate(kMiB));
    if (place != nullptr) {
      EXPECT_EQ(buffer.bytes().data(), place);
    }
    place = buffer.bytes().data();
    stamp(buffer.bytes(), i);
    auto sending = at_a().send(buffer.bytes(), soon());
    buffer.reset();
    expect_next(at_b(), kMiB, i);
    must(sending.wait());
  }
}

TEST_F(Mailboxes, PollNeverBlocks) {
  open();
  open_mail();
  EXPECT_FALSE(must(at_b().poll()));
  send_stamped(at_a(), 10, 1);
  std::optional<Message> message;
  for (auto deadline = soon(); !message && !deadline.expired();) message = must(at_b().poll());
  ASSERT_TRUE(message);
  EXPECT_EQ(message->number(), 1U);
}

TEST_F(Mailboxes, AReceiverIsToldThatItsPeerIsGone) {
  open();
  open_mail();
  send_stamped(at_a(), 64, 1);
  expect_next(at_b(), 64, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    mail().a.reset();
    ab().close();
    pair().a->close();
  });
  EXPECT_EQ(code_of(at_b().receive(soon())), Code::kUnavailable);
  EXPECT_EQ(code_of(at_b().send_and_wait(Bytes(10), soon())), Code::kUnavailable);
  EXPECT_EQ(code_of(at_b().send_and_wait(Bytes(kMiB), soon())), Code::kUnavailable);
  other.join();
}

TEST_F(Mailboxes, ASenderIsToldThatItsPeerIsGone) {
  open();
  open_mail({.slots = 2}, {.slots = 2});
  Bytes large(kMiB);
  Bytes small(10);
  std::vector<Sending> sendings;
  sendings.push_back(at_a().send(large, soon()));
  for (int i = 0; i < 10; ++i) sendings.push_back(at_a().send(small, soon()));
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    mail().b.reset();
    ba().close();
    pair().b->close();
  });
  EXPECT_FALSE(sendings.front().wait());
  EXPECT_FALSE(sendings.back().wait());
  sendings.clear();
  other.join();
  auto deadline = soon();
  Status sent;
  while (sent && !deadline.expired()) sent = at_a().send_and_wait(small, soon());
  EXPECT_FALSE(sent);
}

}  // namespace
}  // namespace ferry::contract
