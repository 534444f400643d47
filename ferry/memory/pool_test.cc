#include "ferry/memory/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "ferry/base/fd.h"

namespace ferry::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Remembers what is attached; refuses on demand.
class FakeRegistrar final : public Registrar {
 public:
  Status attach(const Block& block) override {
    if (refuse_from > 0 && ++calls >= refuse_from)
      return fail(Code::kPermissionDenied, "no more than {} blocks", refuse_from - 1);
    EXPECT_TRUE(attached.insert(block.id).second);
    return {};
  }
  void detach(const Block& block) override {
    EXPECT_EQ(attached.erase(block.id), 1u);
    [[maybe_unused]] volatile std::byte still_mapped = block.bytes[0];
  }
  std::set<std::uint32_t> attached;
  int calls = 0;
  int refuse_from = 0;
};

Pool::Options small() { return {.arena_bytes = 2 * kMiB, .budget_bytes = 16 * kMiB}; }

TEST(Pool, AllocatesAlignedWritablePiecesOfItsBlocks) {
  Pool pool(small());
  for (std::size_t bytes : {1, 63, 64, 65, 4096, 100'000}) {
    Allocation a = pool.allocate(bytes).value();
    EXPECT_EQ(a.bytes.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.bytes.data()) % 64, 0u);
    std::memset(a.bytes.data(), 0x5a, bytes);
    Block block = pool.block(a.block).value();
    EXPECT_EQ(block.bytes.data() + a.offset, a.bytes.data());
    EXPECT_EQ(block.kind, KindId::kHost);
    pool.free(a);
  }
  EXPECT_EQ(pool.blocks().size(), 1u);
}

TEST(Pool, RefusesZeroBytes) {
  Pool pool(small());
  EXPECT_EQ(pool.allocate(0).error().code(), Code::kInvalidArgument);
}

TEST(Pool, BlocksAreSealedMemfdsThatAnotherMappingSees) {
  Pool pool(small());
  Allocation a = pool.allocate(100).value();
  Block block = pool.block(a.block).value();
  EXPECT_EQ(ftruncate(block.fd, 0), -1);
  EXPECT_EQ(ftruncate(block.fd, off_t(block.bytes.size() * 2)), -1);
  int seals = fcntl(block.fd, F_GET_SEALS);
  EXPECT_EQ(seals & (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
            F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  auto peer = Mapping::shared(block.fd, block.bytes.size()).value();
  a.bytes[7] = std::byte{42};
  EXPECT_EQ(peer.bytes()[a.offset + 7], std::byte{42});
  pool.free(a);
}

TEST(Pool, WhatPeersWriteIntoFreeMemoryDoesNotHarmTheAllocator) {
  Pool pool(small());
  Allocation a = pool.allocate(1000).value();
  Allocation b = pool.allocate(1000).value();
  pool.free(a);
  Block block = pool.block(b.block).value();
  std::memset(block.bytes.data(), 0xff, block.bytes.size());
  Allocation c = pool.allocate(1000).value();
  EXPECT_NE(c.bytes.data(), b.bytes.data());
  pool.free(b);
  pool.free(c);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(Pool, TheBudgetIsANamedError) {
  Pool pool({.arena_bytes = 2 * kMiB, .budget_bytes = 4 * kMiB});
  Allocation a = pool.allocate(2 * kMiB).value();
  auto refused = pool.allocate(3 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
  for (const char* part : {"3145728", "4194304", "2097152 in use", "budget_bytes"})
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  EXPECT_EQ(pool.allocate(~std::size_t{0}).error().code(), Code::kResourceExhausted);
  Allocation b = pool.allocate(2 * kMiB).value();  // what fits is still served
  pool.free(a);
  pool.free(b);
}

TEST(Pool, ABudgetBelowAnArenaGivesASmallerArena) {
  Pool pool({.arena_bytes = 64 * kMiB, .budget_bytes = 7 * kMiB});
  Allocation a = pool.allocate(1000).value();
  EXPECT_EQ(pool.stats().arena_bytes, 6 * kMiB);
  pool.free(a);
}

TEST(Pool, EmptyArenasGiveWayToALargeRequest) {
  Pool pool(small());
  FakeRegistrar registrar;
  ASSERT_TRUE(pool.add_registrar(&registrar));
  std::vector<Allocation> all;
  for (int i = 0; i < 8; ++i) all.push_back(pool.allocate(2 * kMiB).value());
  EXPECT_EQ(pool.stats().arena_bytes, 16 * kMiB);
  for (auto& a : all) pool.free(a);
  Allocation large = pool.allocate(15 * kMiB).value();
  EXPECT_EQ(registrar.attached.size(), 1u);
  pool.free(large);
  pool.remove_registrar(&registrar);
  EXPECT_TRUE(registrar.attached.empty());
}

TEST(Pool, LargeBuffersThatCycleAreRegisteredOnce) {
  Pool pool({.arena_bytes = 2 * kMiB, .budget_bytes = 64 * kMiB, .idle_bytes = 16 * kMiB});
  FakeRegistrar registrar;
  ASSERT_TRUE(pool.add_registrar(&registrar));
  for (int i = 0; i < 10; ++i) pool.free(pool.allocate(10 * kMiB - 4096 * i).value());
  EXPECT_EQ(pool.stats().registrations, 1u);
  EXPECT_EQ(pool.stats().idle_bytes, 10 * kMiB);
  // A much smaller request does not get it: that would waste most of it.
  Allocation other = pool.allocate(5 * kMiB).value();
  EXPECT_EQ(pool.stats().registrations, 2u);
  pool.free(other);
  EXPECT_EQ(pool.stats().idle_bytes, 16 * kMiB);
  // Beyond the bound the longest idle goes back to the system.
  pool.free(pool.allocate(3 * kMiB).value());
  EXPECT_EQ(pool.stats().idle_bytes, 10 * kMiB);
  EXPECT_EQ(registrar.attached.size(), 2u);
  pool.remove_registrar(&registrar);
}

TEST(Pool, IdsAreNeverReused) {
  Pool pool({.arena_bytes = 2 * kMiB, .budget_bytes = 64 * kMiB, .idle_bytes = 0});
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 5; ++i) {
    Allocation a = pool.allocate(4 * kMiB).value();
    EXPECT_TRUE(seen.insert(a.block).second);
    EXPECT_TRUE(seen.insert(pool.ids().next()).second);
    pool.free(a);
    EXPECT_FALSE(pool.block(a.block));
  }
}

TEST(Pool, ARegistrarAddedLateSeesTheBlocksThatAreThere) {
  Pool pool(small());
  Allocation a = pool.allocate(2 * kMiB).value();
  Allocation b = pool.allocate(2 * kMiB).value();
  FakeRegistrar registrar;
  ASSERT_TRUE(pool.add_registrar(&registrar));
  EXPECT_EQ(registrar.attached, (std::set<std::uint32_t>{a.block, b.block}));
  pool.free(a);
  pool.free(b);
  pool.remove_registrar(&registrar);
}

TEST(Pool, ARegistrarThatFailsLeavesNothingAttached) {
  Pool pool(small());
  FakeRegistrar good;
  FakeRegistrar bad;
  bad.refuse_from = 2;
  ASSERT_TRUE(pool.add_registrar(&good));
  ASSERT_TRUE(pool.add_registrar(&bad));
  Allocation a = pool.allocate(2 * kMiB).value();
  EXPECT_EQ(pool.allocate(2 * kMiB).error().code(), Code::kPermissionDenied);
  EXPECT_EQ(good.attached.size(), 1u);
  EXPECT_EQ(pool.stats().arena_bytes, 2 * kMiB);
  pool.remove_registrar(&bad);
  bad.calls = 0;
  bad.refuse_from = 2;
  Allocation b = pool.allocate(2 * kMiB).value();
  EXPECT_EQ(pool.add_registrar(&bad).error().code(), Code::kPermissionDenied);
  EXPECT_TRUE(bad.attached.empty());
  pool.free(a);
  pool.free(b);
  pool.remove_registrar(&good);
}

TEST(Pool, StatsTellOfUseAndFragmentation) {
  Pool pool(small());
  std::vector<Allocation> all;
  for (int i = 0; i < 8; ++i) all.push_back(pool.allocate(kMiB / 4).value());
  EXPECT_EQ(pool.stats().in_use, 2 * kMiB);
  EXPECT_EQ(pool.stats().largest_free, 0u);
  EXPECT_EQ(pool.stats().fragmentation, 0);
  for (int i = 0; i < 8; i += 2) pool.free(all[std::size_t(i)]);
  auto stats = pool.stats();
  EXPECT_EQ(stats.in_use, kMiB);
  EXPECT_EQ(stats.peak, 2 * kMiB);
  EXPECT_EQ(stats.largest_free, kMiB / 4);
  EXPECT_DOUBLE_EQ(stats.fragmentation, 0.75);
  EXPECT_EQ(stats.allocations, 8u);
  for (int i = 1; i < 8; i += 2) pool.free(all[std::size_t(i)]);
  EXPECT_EQ(pool.stats().largest_free, 2 * kMiB);
}

TEST(Pool, AnUnknownNumaNodeIsANamedError) {
  auto options = small();
  options.numa_node = 1000;
  Pool pool(options);
  auto refused = pool.allocate(1);
  // Some containers forbid mbind altogether: then arenas are merely not bound.
  if (refused) {
    pool.free(*refused);
    GTEST_SKIP() << "mbind is not to be had here";
  }
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("1000"), std::string::npos);
}

TEST(Pool, NumaNodeZeroWorks) {
  auto options = small();
  options.numa_node = 0;
  Pool pool(options);
  pool.free(pool.allocate(1).value());
}

TEST(Pool, ThreadsShareItWithoutOverlap) {
  Pool pool({.arena_bytes = 4 * kMiB, .budget_bytes = 256 * kMiB, .idle_bytes = 8 * kMiB});
  auto work = [&pool](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Allocation> held;
    for (int i = 0; i < 5'000; ++i) {
      if (held.size() < 20 && random() % 2 == 0) {
        std::size_t bytes = random() % 500 == 0 ? 5 * kMiB : 1 + random() % 20'000;
        Allocation a = pool.allocate(bytes).value();
        a.bytes.front() = a.bytes.back() = std::byte(seed);
        held.push_back(a);
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        ASSERT_EQ(held.back().bytes.front(), std::byte(seed));
        ASSERT_EQ(held.back().bytes.back(), std::byte(seed));
        pool.free(held.back());
        held.pop_back();
      }
    }
    for (auto& a : held) pool.free(a);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().fragmentation,
            1 - double(pool.stats().largest_free) / double(pool.stats().total_free));
}

TEST(PoolDeathTest, BadFreesEndTheProcessWithASentence) {
  Pool pool(small());
  Pool other(small());
  Allocation a = pool.allocate(1000).value();
  Allocation large = pool.allocate(3 * kMiB).value();
  Allocation inside = a;
  inside.bytes = a.bytes.subspan(64);
  inside.offset += 64;
  EXPECT_DEATH(pool.free(inside), "twice, or with another size");
  EXPECT_DEATH(other.free(a), "not of this pool");
  EXPECT_DEATH(pool.free(Allocation{}), "not of this pool");
  pool.free(a);
  pool.free(large);
  EXPECT_DEATH(pool.free(a), "twice");
  EXPECT_DEATH(pool.free(large), "twice");
}

TEST(PoolDeathTest, APoolOutlivesItsAllocations) {
  EXPECT_DEATH(
      {
        Pool pool(small());
        (void)pool.allocate(1);
      },
      "allocations were in use");
}

TEST(Pool, LeavesNoDescriptorOpen) {
  int before = dup(0);
  {
    Pool pool(small());
    pool.free(pool.allocate(1).value());
    pool.free(pool.allocate(5 * kMiB).value());
  }
  int after = dup(0);
  EXPECT_EQ(after, before + 1);
  close(before);
  close(after);
}

}  // namespace
}  // namespace ferry::memory
