#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

using FlagCase = std::tuple<WaitMode, bool>;  // how the receiver waits, and whether it is notified

class Flags : public ContractTest {
 protected:
  // Ping-pong with stamped payloads: each side checks every byte of every round.
  void ping_pong(std::size_t bytes, int count, WaitMode mode, bool notify) {
    std::size_t flag_at = (bytes + 7) / 8 * 8;
    auto at_b = make_piece(b(), flag_at + 8);
    auto at_a = make_piece(a(), flag_at + 8);
    std::thread other([&] { answer(bytes, count, mode, notify, at_b, at_a.remote, flag_at); });
    auto out = make_piece(a(), bytes == 0 ? 1 : bytes);
    for (int i = 1; i <= count; ++i) {
      auto round = static_cast<std::uint64_t>(i);
      auto payload = out.bytes().first(bytes);
      stamp(payload, round);
      auto sent = ab().write_flagged(payload, at_b.remote, {at_b.remote, flag_at}, round,
                                     {.deadline = soon()}, notify);
      auto seen = ab().wait_flag(at_a.data() + flag_at, round, soon(), mode);
      EXPECT_EQ(code_of(seen), Code::kOk);
      EXPECT_EQ(code_of(sent.wait()), Code::kOk);
      EXPECT_TRUE(stamped(at_a.bytes().first(bytes), round + 1'000'000));
      if (HasFailure()) break;
    }
    other.join();
  }

  void answer(std::size_t bytes, int count, WaitMode mode, bool notify, Piece& mine,
              const RemoteRegion& theirs, std::size_t flag_at) {
    std::vector<std::byte> out(bytes);
    for (int i = 1; i <= count; ++i) {
      auto round = static_cast<std::uint64_t>(i);
      auto seen = ba().wait_flag(mine.data() + flag_at, round, soon(), mode);
      EXPECT_EQ(code_of(seen), Code::kOk);
      EXPECT_TRUE(stamped(mine.bytes().first(bytes), round)) << "round " << round;
      stamp(out, round + 1'000'000);
      auto sent =
          ba().write_flagged(out, theirs, {theirs, flag_at}, round, {.deadline = soon()}, notify);
      EXPECT_EQ(code_of(sent.wait()), Code::kOk);
      if (HasFailure()) return;
    }
  }
};

class FlagModes : public Flags, public ::testing::WithParamInterface<FlagCase> {};

TEST_P(FlagModes, PingPong) {
  auto [mode, notify] = GetParam();
  open();
  for (std::size_t bytes : {0UL, 1UL, 64UL, 4096UL, 65'537UL}) {
    ping_pong(bytes, rounds(mode == WaitMode::kSpin ? 200 : 100), mode, notify);
    ASSERT_FALSE(HasFailure()) << bytes;
  }
  ping_pong(1UL << 20, rounds(20), mode, notify);
  ping_pong((9UL << 20) + 1, rounds(3), mode, notify);
}

std::string case_name(const ::testing::TestParamInfo<FlagCase>& info) {
  auto [mode, notify] = info.param;
  std::string name = mode == WaitMode::kSpin    ? "Spinning"
                     : mode == WaitMode::kSleep ? "Sleeping"
                                                : "Adaptive";
  return name + (notify ? "Notified" : "Silent");
}

// A silent flag is for spinners only.
INSTANTIATE_TEST_SUITE_P(All, FlagModes,
                         ::testing::Values(FlagCase{WaitMode::kSpin, false},
                                           FlagCase{WaitMode::kSpin, true},
                                           FlagCase{WaitMode::kSleep, true},
                                           FlagCase{WaitMode::kAdaptive, true}),
                         case_name);

// The receiver looks at the flag itself, without the library: it is a word in memory.
TEST_F(Flags, AFlagIsAWordThatAnybodyCanWatch) {
  open();
  constexpr std::size_t kBytes = 20'000;
  auto target = make_piece(b(), kBytes + 8);
  std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target.data() + kBytes));
  std::thread sender([&] {
    std::vector<std::byte> out(kBytes);
    for (int i = 1; i <= rounds(300); ++i) {
      stamp(out, static_cast<std::uint64_t>(i));
      must(ab().write_flagged(out, target.remote, {target.remote, kBytes},
                              static_cast<std::uint64_t>(i), {.deadline = soon()}, false));
      // The next round starts when the receiver has put the flag back.
      auto deadline = soon();
      while (word.load(std::memory_order_acquire) != 0 && !deadline.expired()) {
        std::this_thread::yield();
      }
    }
  });
  for (int i = 1; i <= rounds(300); ++i) {
    auto deadline = soon();
    while (word.load(std::memory_order_acquire) != static_cast<std::uint64_t>(i) &&
           !deadline.expired()) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(stamped(target.bytes().first(kBytes), static_cast<std::uint64_t>(i)));
    word.store(0, std::memory_order_release);
  }
  sender.join();
}

// Everything posted before a flag on the same channel is there when the flag is seen.
TEST_F(Flags, AFlagFollowsAllWritesBeforeIt) {
  open();
  constexpr std::size_t kParts = 16;
  constexpr std::size_t kBytes = 5000;
  auto target = make_piece(b(), kParts * kBytes);
  auto flag = make_piece(b(), 8);
  auto source = make_piece(a(), kParts * kBytes);
  for (int i = 1; i <= rounds(100); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    stamp(source.bytes(), round);
    std::vector<Transfer> transfers;
    for (std::size_t part = 0; part < kParts; ++part) {
      transfers.push_back(ab().write(source.bytes().subspan(part * kBytes, kBytes),
                                     {target.remote, part * kBytes}, {.deadline = soon()}));
    }
    transfers.push_back(
        ab().write_flagged({}, target.remote, flag.remote, round, {.deadline = soon()}));
    must(b().wait_flag(flag.data(), round, soon()));
    ASSERT_TRUE(stamped(target.bytes(), round)) << "round " << round;
    for (auto& transfer : transfers) must(transfer.wait());
  }
}

// Whoever posts late flags and does nothing else: they come all the same, and in order with others.
TEST_F(Flags, LateFlagsComeByThemselves) {
  open();
  auto flag = make_piece(b(), 8);
  for (int i = 1; i <= rounds(200); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    auto pace = i % 5 == 0 ? fabric::Pace::kLateEnd : fabric::Pace::kLate;
    auto late =
        ab().write_flagged({}, flag.remote, flag.remote, round, {.deadline = soon(), .pace = pace});
    if (i % 3 == 0) must(b().wait_flag(flag.data(), round, soon()));
    if (i % 7 == 0) must(late.wait());
    if (i % 50 == 0) std::this_thread::sleep_for(5ms);
  }
  must(b().wait_flag(flag.data(), static_cast<std::uint64_t>(rounds(200)), soon()));
}

TEST_F(Flags, FlagsOfOneChannelComeInOrder) {
  open();
  auto first = make_piece(b(), 64);
  auto second = make_piece(b(), 64);
  std::byte bytes[32]{};
  for (int i = 1; i <= rounds(300); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    auto one = ab().write_flagged(bytes, {first.remote, 32}, first.remote, round);
    auto two = ab().write_flagged(bytes, {second.remote, 32}, second.remote, round);
    must(ba().wait_flag(second.data(), round, soon(), WaitMode::kSpin));
    EXPECT_EQ(code_of(ba().wait_flag(first.data(), round, Deadline())), Code::kOk)
        << "the second flag was seen before the first";
    must(one.wait());
    must(two.wait());
  }
}

TEST_F(Flags, WaitingForAFlagGivesUpAtItsDeadline) {
  open();
  auto flag = make_piece(b(), 8);
  for (auto mode : {WaitMode::kSpin, WaitMode::kSleep, WaitMode::kAdaptive}) {
    EXPECT_EQ(code_of(ba().wait_flag(flag.data(), 1, Deadline::after(20ms), mode)),
              Code::kDeadlineExceeded);
    EXPECT_EQ(code_of(b().wait_flag(flag.data(), 1, Deadline::after(20ms), mode)),
              Code::kDeadlineExceeded);
  }
}

TEST_F(Flags, FlagsWrapLikeSequenceNumbers) {
  open();
  auto flag = make_piece(b(), 8);
  auto last = ~std::uint64_t{0};
  must(ab().write_flagged({}, flag.remote, flag.remote, last));
  must(ba().wait_flag(flag.data(), last, soon()));
  EXPECT_EQ(code_of(ba().wait_flag(flag.data(), 0, Deadline::after(10ms))), Code::kDeadlineExceeded)
      << "0 comes after 2^64 - 1";
  must(ab().write_flagged({}, flag.remote, flag.remote, 1));
  must(ba().wait_flag(flag.data(), last, soon()));
  must(ba().wait_flag(flag.data(), 0, soon()));
  must(ba().wait_flag(flag.data(), 1, soon()));
}

TEST_F(Flags, WaitingForAFlagEndsWhenThePeerIsGone) {
  open();
  auto flag = make_piece(a(), 8);
  std::thread closer([&] {
    std::this_thread::sleep_for(20ms);
    ba().close();
  });
  EXPECT_EQ(code_of(ab().wait_flag(flag.data(), 1, soon())), Code::kUnavailable);
  closer.join();
}

// Two sleepers on one device, woken by one sender, each by its own flag.
TEST_F(Flags, EverySleeperIsWoken) {
  open();
  constexpr int kSleepers = 3;
  auto flags = make_piece(b(), kSleepers * 64);
  std::vector<std::thread> sleepers;
  for (int s = 0; s < kSleepers; ++s) {
    sleepers.emplace_back([&, s] {
      for (int i = 1; i <= rounds(50); ++i) {
        EXPECT_EQ(code_of(b().wait_flag(flags.data() + 64 * s, static_cast<std::uint64_t>(i),
                                        soon(), WaitMode::kSleep)),
                  Code::kOk);
      }
    });
  }
  for (int i = 1; i <= rounds(50); ++i) {
    for (std::uint64_t s = 0; s < kSleepers; ++s) {
      must(ab().write_flagged({}, flags.remote, {flags.remote, 64 * s},
                              static_cast<std::uint64_t>(i)));
    }
    std::this_thread::sleep_for(200us);
  }
  for (auto& sleeper : sleepers) sleeper.join();
}

// Copies in software land in any order.
TEST_F(Flags, NoPathWithoutOrderSaysThatItKeepsIt) {
  open();
  auto provider = ab().provider();
  if (provider == "verbs") GTEST_SKIP() << "the card says what it does";
  EXPECT_EQ(ab().capabilities().tail_flag, provider == "fake" && settings().tail_flags);
}

}  // namespace
}  // namespace ferry::contract
