#include <cstring>
#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class Atomics : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    auto options = device_options();
    options.lanes_per_peer = 2;
    open(options, options);
    if (!ab().capabilities().atomics) GTEST_SKIP() << "this path has no atomics";
  }
  // Words used by atomics are read through channels only.
  std::uint64_t word(Channel& channel, const RemoteRegion& remote, std::uint64_t offset = 0) {
    auto transfer = channel.fetch_add({remote, offset}, 0, {.deadline = soon()});
    must(transfer.wait());
    return transfer.value();
  }
};

TEST_F(Atomics, FetchAddFindsWhatWasThere) {
  auto piece = make_piece(b(), 64);
  for (std::uint64_t offset : {0UL, 8UL, 56UL}) {
    auto first = ab().fetch_add({piece.remote, offset}, 5);
    must(first.wait());
    EXPECT_EQ(first.value(), 0U);
    auto second = ab().fetch_add({piece.remote, offset}, ~std::uint64_t{0});
    must(second.wait());
    EXPECT_EQ(second.value(), 5U);
    EXPECT_EQ(word(ab(), piece.remote, offset), 4U);
  }
}

TEST_F(Atomics, CompareSwapSwapsOnlyWhatItExpects) {
  auto piece = make_piece(b(), 8);
  auto hit = ab().compare_swap(piece.remote, 0, 7);
  must(hit.wait());
  EXPECT_EQ(hit.value(), 0U);
  auto miss = ab().compare_swap(piece.remote, 0, 9);
  must(miss.wait());
  EXPECT_EQ(miss.value(), 7U);
  EXPECT_EQ(word(ab(), piece.remote), 7U);
}

TEST_F(Atomics, SumsOfManyThreadsOnManyChannelsAreExact) {
  constexpr int kThreads = 4;
  auto piece = make_piece(b(), 8);
  auto count = rounds(500);
  auto more = connect_more(a(), b());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Channel& channel = t % 2 == 0 ? ab() : more.ab;
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(code_of(channel.fetch_add(piece.remote, 3, {.deadline = soon()}).wait()),
                  Code::kOk);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(word(ab(), piece.remote), static_cast<std::uint64_t>(kThreads * count) * 3);
}

TEST_F(Atomics, EveryTicketIsDrawnOnce) {
  auto piece = make_piece(b(), 8);
  auto count = static_cast<std::size_t>(rounds(400));
  std::vector<std::uint8_t> drawn(4 * count, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < count; ++i) {
        auto ticket = ab().fetch_add(piece.remote, 1, {.deadline = soon()});
        ASSERT_EQ(code_of(ticket.wait()), Code::kOk);
        ASSERT_LT(ticket.value(), drawn.size());
        ++drawn[ticket.value()];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto times : drawn) ASSERT_EQ(times, 1);
}

// A lock by compare-swap that guards a plain counter in the peer's memory.
TEST_F(Atomics, CompareSwapMakesALock) {
  constexpr int kThreads = 3;
  auto lock = make_piece(b(), 8);
  auto counter = make_piece(b(), 8);
  auto count = rounds(50);
  auto add_one = [&](std::uint64_t me) {
    auto deadline = soon();
    for (;;) {
      auto take = ab().compare_swap(lock.remote, 0, me, {.deadline = soon()});
      must(take.wait());
      if (take.value() == 0) break;
      if (deadline.expired()) throw std::runtime_error("the lock was never free");
      std::this_thread::yield();
    }
    std::uint64_t value = 0;
    auto bytes = std::as_writable_bytes(std::span(&value, 1));
    must(ab().read(bytes, counter.remote, {.deadline = soon()}));
    ++value;
    must(ab().write(bytes, counter.remote, {.deadline = soon()}));
    auto leave = ab().compare_swap(lock.remote, me, 0, {.deadline = soon()});
    must(leave.wait());
    EXPECT_EQ(leave.value(), me);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < count; ++i) add_one(static_cast<std::uint64_t>(t));
    });
  }
  for (auto& thread : threads) thread.join();
  std::uint64_t sum = 0;
  std::memcpy(&sum, counter.data(), sizeof sum);
  EXPECT_EQ(sum, static_cast<std::uint64_t>(kThreads * count));
}

TEST_F(Atomics, OwnersUseTheirWordsThroughAChannelToThemselves) {
  auto piece = make_piece(b(), 8);
  auto own = connect_more(b(), b());
  std::thread peer([&] {
    for (int i = 0; i < rounds(300); ++i) must(ab().fetch_add(piece.remote, 1));
  });
  for (int i = 0; i < rounds(300); ++i) must(own.ab.fetch_add(piece.remote, 1));
  peer.join();
  EXPECT_EQ(word(own.ab, piece.remote), 2U * static_cast<std::uint64_t>(rounds(300)));
}

TEST_F(Atomics, WorkOnOwnMemoryToo) {
  auto piece = make_piece(b(), 64, Memory::kOwn);
  auto aligned = (8 - reinterpret_cast<std::uintptr_t>(piece.data()) % 8) % 8;
  for (int i = 0; i < 10; ++i) must(ab().fetch_add({piece.remote, aligned}, 2));
  EXPECT_EQ(word(ab(), piece.remote, aligned), 20U);
}

}  // namespace
}  // namespace ferry::contract
