#include <cstring>
#include <random>
#include <thread>

#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"
#include "tests/contract/echo.h"
#include "tests/contract/flat.h"

namespace ferry::contract {
namespace {

constexpr std::size_t kPageStep = 4096;
// a sends, b receives.
class LongRuns : public ContractTest {
 protected:
  Held held() { return held_by(a(), b()); }
};

// As many tensors as a model with a hundred of them sends in some hours of training.
TEST_F(LongRuns, MemoryDescriptorsAndPinnedBytesStayFlat) {
  open();
  auto any = u8_spec(-1);
  transfer::DynamicOptions options;
  options.pad = 1024;
  options.most_pad = 32 * 1024;
  auto dynamic_in = must(transfer::DynamicReceiver::open(b(), ba(), any, options));
  auto dynamic_out = must(transfer::DynamicSender::open(a(), ab(), dynamic_in.ticket(), any));
  auto spec = u8_spec(3000);
  auto static_in = must(transfer::StaticReceiver::open(b(), ba(), spec));
  auto static_out = must(transfer::StaticSender::open(a(), ab(), static_in.ticket(), spec));
  auto count = static_cast<std::uint64_t>(rounds(60'000));
  auto early_at = count / 4;
  std::uint64_t wrong = 0;
  auto receive_all = [&](std::uint64_t from, std::uint64_t to) {
    for (auto i = from; i < to; ++i) {
      auto one = must(static_in.receive(soon()));
      wrong += !stamped(one.bytes().first(64), i);
      auto other = must(dynamic_in.receive(soon()));
      wrong += !stamped(other.bytes(), i);
    }
  };
  std::mt19937_64 random(settings().seed);
  auto send_all = [&](std::uint64_t from, std::uint64_t to) {
    for (auto i = from; i < to; ++i) {
      auto one = must(static_out.output());
      stamp(one.bytes().first(64), i);
      must(static_out.send(one, soon()));
      auto bytes = static_cast<std::int64_t>(random() % (std::size_t{16} << random() % 12));
      auto other = must(dynamic_out.output(u8_spec(bytes)));
      stamp(other.bytes(), i);
      must(dynamic_out.send(other, soon()));
    }
    must(static_out.drain(soon()));
    must(dynamic_out.drain(soon()));
  };
  auto both = [&](std::uint64_t from, std::uint64_t to) {
    std::thread sender([&] { send_all(from, to); });
    receive_all(from, to);
    sender.join();
  };
  // As many buffers of the largest size as there can be under way: more are never needed.
  std::vector<transfer::Arrival> largest;
  for (std::uint32_t i = 0; i <= options.slots; ++i) {
    auto out = must(dynamic_out.output(u8_spec(32 * 1024)));
    if (i == options.slots) largest.clear();
    must(dynamic_out.send(out, soon()));
    largest.push_back(must(dynamic_in.receive(soon())));
  }
  largest.clear();
  both(0, early_at);
  auto early = held();
  both(early_at, count);
  expect_flat(early, held());
  EXPECT_EQ(wrong, 0U);
}

// Nothing in the library may notice 2 GiB or 4 GiB. Every page is marked and checked.
TEST_F(LongRuns, TensorsOfOneAndFourGiB) {
  if (settings().scale > 1) GTEST_SKIP() << "slow hosts and tools have no time for gigabytes";
  constexpr std::uint64_t kNeeded = 14;
  auto free_gib = kib_of("/proc/meminfo", "MemAvailable:") >> 20;
  if (free_gib < kNeeded)
    GTEST_SKIP() << "needs " << kNeeded << " GiB of memory, " << free_gib << " are free";
  auto setting = device_options();
  setting.budget_bytes = std::size_t{12} << 30;
  open(setting, setting);
  for (std::int64_t gib : {1, 4}) {
    auto spec = u8_spec((gib << 30) + 8);
    auto receiver = must(transfer::StaticReceiver::open(b(), ba(), spec, {.slots = 1}));
    auto sender = must(transfer::StaticSender::open(a(), ab(), receiver.ticket(), spec));
    auto out = must(sender.output());
    auto bytes = out.bytes();
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += kPageStep)
      std::memcpy(bytes.data() + at, &at, sizeof at);
    // Minutes: beside others, four GiB take as long as these let them.
    std::jthread other([&] { must(sender.send(out, in(300s))); });
    auto arrival = must(receiver.receive(in(300s)));
    other.join();
    auto got = arrival.bytes();
    ASSERT_EQ(got.size(), bytes.size());
    std::size_t wrong = 0;
    for (std::size_t at = 0; at + 8 <= got.size(); at += kPageStep)
      wrong += std::memcmp(got.data() + at, &at, sizeof at) != 0;
    EXPECT_EQ(wrong, 0U) << gib << " GiB";
  }
}

}  // namespace
}  // namespace ferry::contract
