#include <thread>

#include "tests/contract/flood.h"
#include "tests/contract/peer.h"

namespace ferry::contract {
namespace {

class TwoProcesses : public TwoProcessTest {
 protected:
  void ping_pong(std::size_t bytes, int count, WaitMode mode, Memory memory) {
    SCOPED_TRACE(::testing::Message() << bytes << " bytes, mode " << static_cast<int>(mode));
    std::size_t flag_at = (bytes + 7) / 8 * 8;
    auto mine = make_piece(*device_, flag_at + 8, memory);
    must(device_->publish("mine", mine.remote));
    auto kind = memory == Memory::kArena ? "arena" : "own";
    expect_order(fmt::format("{} theirs {}", kind, flag_at + 8));
    auto theirs = must(channel_.look_up("theirs", soon()));
    auto answering = fmt::format("pong theirs mine {} {} {}", bytes, count, static_cast<int>(mode));
    must(channel_.send(std::as_bytes(std::span(answering)), {.deadline = soon()}));
    std::vector<std::byte> out(bytes);
    for (int i = 1; i <= count; ++i) {
      auto round = static_cast<std::uint64_t>(i);
      stamp(out, round);
      must(channel_.write_flagged(out, theirs, {theirs, flag_at}, round, {.deadline = soon()}));
      must(channel_.wait_flag(mine.data() + flag_at, round, soon(), mode));
      ASSERT_TRUE(stamped(mine.bytes().first(bytes), round + 1'000'000));
    }
    std::vector<std::byte> answer(channel_.capabilities().max_message);
    EXPECT_EQ(must(channel_.receive(answer, soon())), 2U);  // "ok"
    must(device_->withdraw("mine"));
  }
};

TEST_F(TwoProcesses, FlaggedPingPong) {
  start();
  for (auto mode : {WaitMode::kAdaptive, WaitMode::kSleep}) {
    for (std::size_t bytes : {8UL, 4096UL, 100'001UL, 2UL << 20}) {
      ping_pong(bytes, rounds(bytes > 1'000'000 ? 20 : 200), mode, Memory::kArena);
      ASSERT_FALSE(HasFailure());
    }
  }
  ping_pong(64, rounds(200), WaitMode::kSpin, Memory::kArena);
}

TEST_F(TwoProcesses, FlaggedPingPongInOwnMemory) {
  start();
  for (std::size_t bytes : {8UL, 4096UL, 100'001UL, 3UL << 20}) {
    ping_pong(bytes, rounds(bytes > 1'000'000 ? 20 : 100), WaitMode::kAdaptive, Memory::kOwn);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(TwoProcesses, ReadsAndWritesOfAllKindsOfMemory) {
  start();
  for (const char* kind : {"arena", "own"}) {
    for (std::size_t bytes : {1UL, 4097UL, 1'000'003UL, (8UL << 20) + 3}) {
      SCOPED_TRACE(::testing::Message() << kind << " " << bytes);
      expect_order(fmt::format("{} there {}", kind, bytes));
      expect_order(fmt::format("stamp there {}", bytes));
      auto there = must(channel_.look_up("there", soon()));
      std::vector<std::byte> plain(bytes);
      auto arena = must(device_->allocate(bytes));
      must(channel_.read(plain, there, {.deadline = soon()}));
      EXPECT_TRUE(stamped(plain, bytes));
      must(channel_.read(arena.bytes(), there, {.deadline = soon()}));
      EXPECT_TRUE(stamped(arena.bytes(), bytes));
      stamp(plain, bytes + 1);
      must(channel_.write(plain, there, {.deadline = soon()}));
      expect_order(fmt::format("check there {}", bytes + 1));
      stamp(arena.bytes(), bytes + 2);
      must(channel_.write(arena.bytes(), there, {.deadline = soon()}));
      expect_order(fmt::format("check there {}", bytes + 2));
    }
  }
}

TEST_F(TwoProcesses, ThePeerReadsAndWritesOurs) {
  start();
  for (auto memory : {Memory::kArena, Memory::kOwn}) {
    auto mine = make_piece(*device_, 3'000'001, memory);
    must(device_->publish("mine", mine.remote));
    expect_order("push mine 3000001 5");
    EXPECT_TRUE(stamped(mine.bytes(), 5));
    stamp(mine.bytes(), 6);
    expect_order("pull mine 3000001 6");
    must(device_->withdraw("mine"));
  }
}

TEST_F(TwoProcesses, AtomicsOfBothSidesAddUp) {
  start();
  if (!channel_.capabilities().atomics) GTEST_SKIP() << "this path has no atomics";
  auto word = make_piece(*device_, 8);
  must(device_->publish("word", word.remote));
  auto times = rounds(500);
  auto own = must(device_->connect(device_->endpoint(), {.deadline = soon()}));
  auto own_end = must(device_->accept(soon()));
  std::thread here([&] {
    for (int i = 0; i < times; ++i) must(own.fetch_add(word.remote, 1, {.deadline = soon()}));
  });
  expect_order(fmt::format("add word {}", times));
  here.join();
  auto sum = own.fetch_add(word.remote, 0);
  must(sum.wait());
  EXPECT_EQ(sum.value(), 2U * static_cast<std::uint64_t>(times));
}

TEST_F(TwoProcesses, MessagesGoBackAndForth) {
  start();
  for (int i = 0; i < rounds(500); ++i) {
    ASSERT_EQ(order(channel_, "nonsense"), "there is no such order");
  }
}

TEST_F(TwoProcesses, AnotherDeviceOfOursIsAnotherPeer) {
  start();
  expect_order("arena shared 4096");
  auto second = open_device();
  auto channel = must(second.connect(channel_.peer_endpoint(), {.deadline = soon()}));
  auto there = must(channel.look_up("shared", soon()));
  std::vector<std::byte> bytes(4096);
  stamp(bytes, 8);
  must(channel.write(bytes, there, {.deadline = soon()}));
  expect_order("check shared 8");
}

TEST_F(TwoProcesses, MapInPlace) {
  start();
  if (!channel_.capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  expect_order("arena place 100000");
  auto there = must(channel_.look_up("place", soon()));
  auto mapped = must(channel_.map(there));
  ASSERT_EQ(mapped.size(), 100'000U);
  stamp(mapped, 4);
  expect_order("check place 4");
  expect_order("stamp place 5");
  EXPECT_TRUE(stamped(mapped, 5));
}

}  // namespace
}  // namespace ferry::contract
