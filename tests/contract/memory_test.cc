#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class MemoryOfADevice : public ContractTest {};

TEST_F(MemoryOfADevice, AllocationsAreZeroedAlignedAndDistinct) {
  auto device = open_device();
  std::vector<Region> regions;
  for (std::size_t bytes : {1UL, 63UL, 64UL, 65UL, 4096UL, 100'000UL, 3UL << 20}) {
    auto region = must(device.allocate(bytes));
    EXPECT_EQ(region.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % 64, 0U);
    auto whole = region.bytes();
    EXPECT_TRUE(std::all_of(whole.begin(), whole.end(), [](auto b) { return b == std::byte{0}; }));
    stamp(whole, bytes);
    regions.push_back(std::move(region));
  }
  for (auto& region : regions) EXPECT_TRUE(stamped(region.bytes(), region.size()));
}

TEST_F(MemoryOfADevice, ReusedMemoryIsZeroedAgain) {
  auto device = open_device();
  for (int i = 0; i < 3; ++i) {
    auto region = must(device.allocate(5000));
    auto whole = region.bytes();
    EXPECT_TRUE(std::all_of(whole.begin(), whole.end(), [](auto b) { return b == std::byte{0}; }));
    stamp(whole, 7);
  }
}

TEST_F(MemoryOfADevice, NothingIsNotAllocated) {
  auto device = open_device();
  EXPECT_EQ(code_of(device.allocate(0)), Code::kInvalidArgument);
  EXPECT_EQ(code_of(device.register_memory({})), Code::kInvalidArgument);
}

TEST_F(MemoryOfADevice, TheBudgetIsALimitWithAName) {
  auto options = device_options();
  options.arena_bytes = 4UL << 20;
  options.budget_bytes = 16UL << 20;
  auto device = open_device(options);
  auto too_large = device.allocate(64UL << 20);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code(), Code::kResourceExhausted);
  std::vector<Region> regions;
  Code end = Code::kOk;
  for (int i = 0; i < 64 && end == Code::kOk; ++i) {
    auto region = device.allocate(1UL << 20);
    end = code_of(region);
    if (region) regions.push_back(std::move(*region));
  }
  EXPECT_EQ(end, Code::kResourceExhausted);
  EXPECT_GE(regions.size(), 4U);
  regions.clear();
  EXPECT_TRUE(device.allocate(1UL << 20)) << "freed memory can be had again";
}

TEST_F(MemoryOfADevice, RegionsKeepTheMostTheyMayAllow) {
  auto device = open_device();
  auto region = must(device.allocate(64, Rights::kRead));
  EXPECT_EQ(region.rights(), Rights::kRead);
  EXPECT_EQ(code_of(device.grant(region, Rights::kReadWrite)), Code::kPermissionDenied);
  EXPECT_TRUE(device.grant(region, Rights::kRead));
}

// Arenas and the user's own memory, by every provider that is on; nothing else.
TEST_F(MemoryOfADevice, RegistrationsAreCountedForEachProvider) {
  auto device = open_device();
  const auto count_of = [&device] {
    std::uint64_t all = 0;
    for (const auto& stats : device.stats().registrations) all += stats.count;
    return all;
  };
  const auto providers = device.stats().registrations.size();
  ASSERT_EQ(providers, 1U);
  EXPECT_EQ(device.stats().registrations[0].provider, settings().provider);
  EXPECT_EQ(device.stats().registrations[0].hardware, settings().provider == "verbs");
  std::vector<std::byte> own(10'000);
  EXPECT_FALSE(device.is_registered(own));
  auto first = must(device.allocate(5000));
  const auto before = count_of();
  EXPECT_GE(before, 1U);
  auto second = must(device.allocate(5000));  // from the same arena
  EXPECT_EQ(count_of(), before);
  {
    auto region = must(device.register_memory(std::span(own).first(5000)));
    EXPECT_EQ(count_of(), before + 1);
    EXPECT_GT(device.stats().registrations[0].ns, 0U);
    EXPECT_TRUE(device.is_registered(std::span(own).subspan(100, 4900)));
    EXPECT_FALSE(device.is_registered(std::span(own).subspan(100, 4901)));
  }
  EXPECT_FALSE(device.is_registered(std::span(own).first(5000)));
  EXPECT_TRUE(device.is_registered(second.bytes()));
}

TEST_F(MemoryOfADevice, OwnMemoryCanBeRegisteredAtAnyAlignment) {
  open();
  std::vector<std::byte> own(10'000);
  for (std::size_t at : {0UL, 1UL, 7UL, 63UL}) {
    auto part = std::span(own).subspan(at, 5000);
    auto region = must(b().register_memory(part));
    EXPECT_EQ(region.data(), part.data());
    EXPECT_EQ(region.size(), part.size());
    auto remote = must(b().grant(region, Rights::kReadWrite));
    std::vector<std::byte> bytes(5000);
    stamp(bytes, at);
    must(ab().write(bytes, remote));
    EXPECT_TRUE(stamped(part, at));
  }
}

TEST_F(MemoryOfADevice, MemoryUnmappedAndMappedAgainIsNotMistaken) {
  open();
  constexpr std::size_t kBytes = 1UL << 20;
  auto target = make_piece(b(), kBytes);
  void* at = nullptr;
  for (std::uint64_t i = 0; i < 4; ++i) {
    void* got =
        mmap(at, kBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    ASSERT_NE(got, MAP_FAILED);
    at = got;
    std::span<std::byte> bytes(static_cast<std::byte*>(at), kBytes);
    stamp(bytes, i);
    must(ab().write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), i));
    ASSERT_EQ(munmap(at, kBytes), 0);
  }
}

TEST_F(MemoryOfADevice, StatisticsFollowWhatIsAllocated) {
  auto device = open_device();
  auto before = device.stats().memory;
  {
    auto region = must(device.allocate(100'000));
    auto during = device.stats().memory;
    EXPECT_GE(during.in_use, before.in_use + 100'000);
    EXPECT_EQ(during.allocations, before.allocations + 1);
    EXPECT_GE(during.arena_bytes, during.in_use);
  }
  EXPECT_EQ(device.stats().memory.in_use, before.in_use);
  EXPECT_GE(device.stats().memory.peak, before.in_use + 100'000);
}

}  // namespace
}  // namespace ferry::contract
