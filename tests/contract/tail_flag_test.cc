#include <cstring>
#include <thread>

#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"
#include "tests/contract/echo.h"

// Payload and flag in one write, where the path lands bytes in order; and never elsewhere.

namespace ferry::contract {
namespace {

using fabric::fake::Script;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::StaticReceiver;
using transfer::StaticSender;

class TailFlags : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    if (settings().provider != "fake") GTEST_SKIP() << "no other provider here has both ways";
  }
  void TearDown() override {
    Script::clear();
    Script::use_path(fake_path());
    ContractTest::TearDown();
  }
  void open_path(bool tail_flag) {
    Script::use_path({.maps_peer = false, .tail_flag = tail_flag});
    open();
    ASSERT_EQ(ab().capabilities().tail_flag, tail_flag);
  }
  // Tensors from a to b, each checked. Returns how many flags of their own it took.
  std::uint64_t flags_of_static(std::int64_t bytes, bool spins, std::uint64_t count) {
    auto mode = spins ? WaitMode::kSpin : WaitMode::kAdaptive;
    auto spec = u8_spec(bytes);
    auto receiver = must(StaticReceiver::open(b(), ba(), spec, {.spins = spins}));
    auto sender = must(StaticSender::open(a(), ab(), receiver.ticket(), spec));
    auto before = Script::counts().flags;
    std::thread other([&] {
      for (std::uint64_t i = 1; i <= count; ++i) {
        auto out = must(sender.output());
        stamp(out.bytes(), i);
        must(sender.send(out, soon()));
      }
    });
    for (std::uint64_t i = 1; i <= count; ++i) {
      auto arrival = must(receiver.receive(soon(), mode));
      EXPECT_TRUE(stamped(arrival.bytes(), i)) << bytes << " bytes, tensor " << i;
    }
    other.join();
    must(sender.drain(soon()));
    return Script::counts().flags - before - count;  // the acknowledgements are flags too
  }
  std::uint64_t flags_of_dynamic(bool spins, std::uint64_t count) {
    auto mode = spins ? WaitMode::kSpin : WaitMode::kAdaptive;
    auto any = u8_spec(-1);
    auto receiver = must(DynamicReceiver::open(b(), ba(), any, {{.spins = spins}, 4096, 4096}));
    auto sender = must(DynamicSender::open(a(), ab(), receiver.ticket(), any));
    auto before = Script::counts().flags;
    std::thread other([&] {
      for (std::uint64_t i = 1; i <= count; ++i) {
        auto out = must(sender.output(u8_spec(static_cast<std::int64_t>(i * 997 % 4096))));
        stamp(out.bytes(), i);
        must(sender.send(out, soon()));
      }
    });
    for (std::uint64_t i = 1; i <= count; ++i) {
      auto arrival = must(receiver.receive(soon(), mode));
      EXPECT_EQ(arrival.bytes().size(), i * 997 % 4096);
      EXPECT_TRUE(stamped(arrival.bytes(), i)) << "tensor " << i;
    }
    other.join();
    must(sender.drain(soon()));
    return Script::counts().flags - before - count;
  }
};

constexpr std::uint64_t kTensors = 20;

// From the end to the beginning: a word that is there has all the words before it.
TEST_F(TailFlags, AReaderSeesPrefixesAndNothingElse) {
  open_path(true);
  constexpr std::size_t kWords = 64;
  auto target = make_piece(b(), kWords * 8);
  std::vector<std::uint64_t> out(kWords);
  const auto* words = reinterpret_cast<const std::uint64_t*>(target.data());
  std::uint64_t partial = 0;
  for (std::uint64_t round = 1; round <= kTensors; ++round) {
    Script::set({.seed = round, .max_delay = 20us, .piece_bytes = 24});
    std::fill(out.begin(), out.end(), round);
    auto sent = ab().write(std::as_bytes(std::span(out)), target.remote, {.deadline = soon()});
    for (std::size_t there = 0; there < kWords;) {
      there = 0;
      for (auto i = kWords; i-- > 0;) {
        bool has = __atomic_load_n(words + i, __ATOMIC_ACQUIRE) == round;
        ASSERT_TRUE(has || there == 0) << "word " << i << " is missing before " << there;
        if (has && there == 0) there = i + 1;
      }
      partial += there != 0 && there != kWords ? 1 : 0;
      a().progress();
    }
    must(sent.wait());
  }
  EXPECT_GT(partial, 0U);
}

TEST_F(TailFlags, ThePayloadBringsTheFlagToAReceiverThatSpins) {
  open_path(true);
  Script::set({.seed = settings().seed, .max_delay = 10us, .shuffle = true, .piece_bytes = 256});
  for (std::int64_t bytes : {0, 8, 64, 4096}) {
    EXPECT_EQ(flags_of_static(bytes, true, kTensors), 0U) << bytes;
    EXPECT_EQ(flags_of_static(bytes, false, kTensors), kTensors) << "a sleeper must be woken";
  }
  EXPECT_EQ(flags_of_static(4097, true, kTensors), kTensors) << "flag and payload do not touch";
  EXPECT_EQ(flags_of_dynamic(true, kTensors), 0U);
  EXPECT_EQ(flags_of_dynamic(false, kTensors), kTensors);
}

// Bytes land from the end here: a flag at the tail would come first.
TEST_F(TailFlags, WithoutOrderNobodyTrustsTheTail) {
  open_path(false);
  Script::set({.seed = settings().seed, .max_delay = 10us, .shuffle = true, .piece_bytes = 256});
  for (bool spins : {true, false}) {
    EXPECT_EQ(flags_of_static(4096, spins, kTensors), kTensors);
    EXPECT_EQ(flags_of_dynamic(spins, kTensors), kTensors);
  }
}

// Numbers beyond 255, whose bytes land one by one, are not mistaken for others.
TEST_F(TailFlags, HalfAFlagIsNoFlag) {
  open_path(true);
  auto spec = u8_spec(0);
  auto receiver = must(StaticReceiver::open(b(), ba(), spec, {.slots = 3, .spins = true}));
  auto sender = must(StaticSender::open(a(), ab(), receiver.ticket(), spec));
  auto send = [&] { must(sender.send(must(sender.output()), soon())); };
  send();
  must(must(receiver.receive(soon(), WaitMode::kSpin)).release());
  Script::set({.piece_bytes = 1});
  std::thread other([&] {
    for (int i = 2; i <= 300; ++i) send();
  });
  for (std::uint64_t i = 2; i <= 300; ++i) {
    auto arrival = receiver.receive(soon(), WaitMode::kSpin);
    EXPECT_TRUE(arrival) << arrival.error().to_string();
    if (!arrival) break;
    EXPECT_EQ(arrival->sequence(), i);
  }
  other.join();
}

// The stripes of one write know nothing of each other.
TEST_F(TailFlags, AStripedChannelHasNone) {
  Script::use_path({.maps_peer = false, .tail_flag = true});
  auto options = device_options();
  options.lanes_per_peer = 4;
  options.stripe_bytes = 64UL << 10;
  open(options, options, {.stripe = true});
  EXPECT_FALSE(ab().capabilities().tail_flag);
  Script::set({.seed = settings().seed, .max_delay = 1ms, .piece_bytes = 16 << 10});
  EXPECT_EQ(flags_of_static(1 << 20, true, 4), 4U);
}

}  // namespace
}  // namespace ferry::contract
