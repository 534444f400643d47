// Threads that unmap and map the same addresses while they register them.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/spin.h"
#include "ferry/memory/registration_cache.h"

namespace ferry::memory {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kRangeBytes = 4 * kPageBytes;

// The first word of a mapping is its generation, as a page would be to a NIC. A registration
// remembers what it saw; a hit whose generation differs from the memory's is a stale registration.
struct Seen {
  std::uint64_t generation;
};

std::atomic<std::uint64_t>& generation_at(std::span<std::byte> range) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(range.data());
}

RegistrationCache::Make maker(std::atomic<int>& live) {
  return [&live](std::span<std::byte> range, std::uint32_t) -> Result<void*> {
    live.fetch_add(1);
    return new Seen{generation_at(range).load()};
  };
}

RegistrationCache::Drop dropper(std::atomic<int>& live) {
  return [&live](void* handle) {
    live.fetch_sub(1);
    delete static_cast<Seen*>(handle);
  };
}

// Each thread asks the kernel for memory anywhere, so that one gets at once what another has just
// given back, uses it twice, and gives it back by the bare system call.
TEST(RegistrationRace, NoThreadSeesARegistrationOfAnothersFormerMemory) {
  std::atomic<int> live{0};
  std::atomic<std::uint64_t> generations{0};
  std::atomic<int> stale{0};
  {
    RegistrationCache cache({.max_count = 64}, maker(live), dropper(live));
    if (!cache.caching()) GTEST_SKIP() << cache.why_not();
    auto work = [&] {
      for (int i = 0; i < 1500; ++i) {
        void* at =
            mmap(nullptr, kRangeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        std::span<std::byte> range{static_cast<std::byte*>(at), kRangeBytes};
        std::uint64_t generation = ++generations;
        generation_at(range).store(generation);
        for (int use = 0; use < 2; ++use) {
          auto lease = cache.acquire(range, 1);
          ASSERT_TRUE(lease);
          if (static_cast<Seen*>(lease->handle())->generation != generation) ++stale;
        }
        ASSERT_EQ(syscall(SYS_munmap, at, kRangeBytes), 0);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
    for (auto& thread : threads) thread.join();
    EXPECT_GT(cache.stats().hits, 0u);
    EXPECT_GT(cache.stats().invalidated, 0u);
  }
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(live, 0);
}

// Unmapping threads, registering threads and a cache far too small, all at once: ends, and leaks
// nothing.
TEST(RegistrationRace, EvictionAndInvalidationMeet) {
  std::atomic<int> live{0};
  {
    RegistrationCache cache({.max_count = 4}, maker(live), dropper(live));
    if (!cache.caching()) GTEST_SKIP() << cache.why_not();
    auto work = [&cache](unsigned seed) {
      std::mt19937 random(seed);
      constexpr std::size_t kRanges = 8;
      void* base = mmap(nullptr, kRanges * kRangeBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(base, MAP_FAILED);
      for (int i = 0; i < 1500; ++i) {
        auto* at = static_cast<std::byte*>(base) + random() % kRanges * kRangeBytes;
        switch (random() % 4) {
          case 0:
            ASSERT_NE(mmap(at, kRangeBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                      MAP_FAILED);
            break;
          case 1:
            ASSERT_EQ(madvise(at, kPageBytes, MADV_DONTNEED), 0);
            break;
          default:
            ASSERT_TRUE(cache.acquire({at, kRangeBytes}, 1));
        }
      }
      munmap(base, kRanges * kRangeBytes);
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(cache.stats().leases, 0u);
  }
  EXPECT_EQ(live, 0);
}

}  // namespace
}  // namespace ferry::memory
