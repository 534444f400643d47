#include <algorithm>
#include <array>
#include <random>

#include "tests/contract/flat.h"
#include "tests/contract/mail_kit.h"

namespace ferry::contract {
namespace {

// Requests from a to b and answers, over several mailboxes of one room at each end.
class LongMail : public MailTest {
 protected:
  static constexpr std::size_t kBoxes = 3;
  static constexpr std::size_t kRoom = 2 * kMiB;

  void open_all() {
    open();
    open_rooms({.budget_bytes = kRoom}, {.budget_bytes = kRoom});
    for (auto& end : ends_) end = connect_more(a(), b());
    for (std::size_t i = 0; i < kBoxes; ++i) pairs_[i] = open_ends(ends_[i].ab, ends_[i].ba);
  }
  void TearDown() override {
    pairs_ = {};
    ends_ = {};
    MailTest::TearDown();
  }

  // Few sizes, so that the buffers which they take are soon all there.
  static std::size_t size_of(std::uint64_t number) {
    constexpr std::size_t kSizes[] = {0, 64, 1000, 64, 8192, 100, 20'000, 64, 120'000, 300'000};
    return number % 100 == 99 ? kMiB + 8 : kSizes[number % std::size(kSizes)];
  }
  // From memory of its own, of the mailbox, or in two parts: small ones go along, the others are
  // copied, registered, read, or used in place.
  static void ask(Mailbox& box, std::uint64_t number) {
    auto size = size_of(number);
    if (number % 3 == 0) {
      auto buffer = must(box.allocate(size, soon()));
      stamp(buffer.bytes(), number);
      must(box.send_and_wait(buffer.bytes(), soon()));
    } else {
      auto bytes = stamped_bytes(size, number);
      auto all = std::span<const std::byte>(bytes);
      auto half = number % 3 == 1 ? size / 16 * 8 : size;
      Views views{all.first(half), all.subspan(half)};
      must(box.send_and_wait(views, soon()));
    }
    expect_next(box, number % 50 == 49 ? 150'000 : 64, number + 1);
  }
  void answer(std::size_t which, std::uint64_t number) {
    auto& box = *pairs_[which].b;
    Bytes got;
    {
      auto message = must(box.receive(soon()));
      for (const auto& part : message.parts()) got.insert(got.end(), part.begin(), part.end());
    }
    wrong_ += got.size() == size_of(number) && stamped(got, number) ? 0 : 1;
    send_stamped(box, number % 50 == 49 ? 150'000 : 64, number + 1);
  }
  // Messages from..to of every mailbox.
  void run(std::uint64_t from, std::uint64_t to) {
    std::vector<std::thread> clients;
    for (auto& pair : pairs_)
      clients.emplace_back([&pair, from, to] {
        for (auto n = from; n < to; ++n) ask(*pair.a, n);
      });
    std::vector<Mailbox*> boxes;
    for (auto& pair : pairs_) boxes.push_back(&*pair.b);
    std::array<std::uint64_t, kBoxes> next;
    next.fill(from);
    for (auto n = from * kBoxes; n < to * kBoxes; ++n) {
      auto which = must(room_b().wait_any(boxes, soon()));
      answer(which, next[which]++);
    }
    for (auto& client : clients) client.join();
  }

  std::array<Ends, kBoxes> ends_;
  std::array<MailPair, kBoxes> pairs_;
  std::uint64_t wrong_ = 0;
};

TEST_F(LongMail, MemoryDescriptorsAndPinnedBytesStayFlat) {
  open_all();
  // Every size has come, also where there is time for a few messages only.
  constexpr std::uint64_t kAllSizes = 200;
  auto count = std::max(static_cast<std::uint64_t>(rounds(3000)), 2 * kAllSizes);
  auto warm = std::max(count / 4, kAllSizes);
  run(0, warm);
  auto early = held_by(a(), b());
  run(warm, count);
  expect_flat(early, held_by(a(), b()), kRoom);
  EXPECT_EQ(wrong_, 0U);
  EXPECT_EQ(room_a().bytes_in_use() + room_b().bytes_in_use(), 0U);
  EXPECT_EQ(a().stats().retired_bytes + b().stats().retired_bytes, 0U);
  EXPECT_EQ(pairs_[0].a->stats().sent, count);
}

}  // namespace
}  // namespace ferry::contract
