#include "ferry/memory/registration_cache.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"

namespace ferry::memory {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 16 * kPage;

// Stands in for a NIC: knows which registrations there are, and a number for each.
class Nic {
 public:
  RegistrationCache::Make maker() {
    return [this](std::span<std::byte>, std::uint32_t) -> Result<void*> {
      if (refuse) return fail(Code::kResourceExhausted, "the NIC is full");
      std::lock_guard lock(mutex_);
      live_[++made_] = true;
      return reinterpret_cast<void*>(made_);
    };
  }
  RegistrationCache::Drop dropper() {
    return [this](void* handle) {
      std::lock_guard lock(mutex_);
      EXPECT_EQ(live_.erase(reinterpret_cast<std::uintptr_t>(handle)), 1u) << "dropped twice";
    };
  }
  std::size_t live() const {
    std::lock_guard lock(mutex_);
    return live_.size();
  }
  std::uintptr_t made() const {
    std::lock_guard lock(mutex_);
    return made_;
  }
  // The sweeper drops in its own time.
  bool wait_for_live(std::size_t count) const {
    auto deadline = Deadline::after(std::chrono::seconds(20));
    while (live() != count && !deadline.expired()) sched_yield();
    return live() == count;
  }
  std::atomic<bool> refuse{false};

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, bool> live_;
  std::uintptr_t made_ = 0;
};

std::span<std::byte> map_at(void* at, std::size_t bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0);
  void* got = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  EXPECT_NE(got, MAP_FAILED);
  return {static_cast<std::byte*>(got), bytes};
}
std::span<std::byte> map(std::size_t bytes = kBytes) { return map_at(nullptr, bytes); }
// False if another thread of the process, an allocator's or a sanitizer's, has mapped something
// into the hole meanwhile: that is not ours to replace, or to unmap.
bool fill(std::span<std::byte> hole) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  return mmap(hole.data(), hole.size(), PROT_READ | PROT_WRITE, flags, -1, 0) == hole.data();
}
constexpr auto kTaken = "another thread's memory is there by now";
// The kernel maps into the highest hole that is large enough. Here one is above: holes in this
// memory stay free.
std::span<std::byte> map_below_a_hole() {
  constexpr std::size_t kSpace = std::size_t{64} << 20;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* space = mmap(nullptr, kSpace, PROT_NONE, flags, -1, 0);
  EXPECT_NE(space, MAP_FAILED);
  auto range = map_at(space, kBytes);
  munmap(range.data() + kBytes, kSpace - kBytes);
  return range;
}
// Behind the C library's back.
void unmap(std::span<std::byte> range) {
  ASSERT_EQ(syscall(SYS_munmap, range.data(), range.size()), 0);
}

class Registrations : public testing::Test {
 protected:
  void open(RegistrationCache::Options options = {}) {
    cache_.emplace(options, nic_.maker(), nic_.dropper());
    if (options.caching && !cache_->caching()) GTEST_SKIP() << cache_->why_not();
  }
  void SetUp() override { open(); }
  void TearDown() override {
    cache_.reset();
    EXPECT_EQ(nic_.live(), 0u);
  }
  std::uintptr_t number(std::span<std::byte> range, std::uint32_t rights = 1) {
    auto lease = cache_->acquire(range, rights);
    EXPECT_TRUE(lease);
    return lease ? reinterpret_cast<std::uintptr_t>(lease->handle()) : 0;
  }

  Nic nic_;
  std::optional<RegistrationCache> cache_;
};

TEST_F(Registrations, TheSameRangeAndItsPartsHit) {
  auto range = map();
  auto first = number(range);
  EXPECT_EQ(number(range), first);
  EXPECT_EQ(number(range.subspan(100, 7)), first);
  EXPECT_EQ(number(range.last(1)), first);
  auto stats = cache_->stats();
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_GT(stats.registering_ns, 0u);
  number(range);
  EXPECT_EQ(cache_->stats().registering_ns, stats.registering_ns) << "a hit registers nothing";
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(stats.bytes, kBytes);
  unmap(range);
}

TEST_F(Registrations, ALargerRangeMisses) {
  auto range = map();
  auto first = number(range.first(kPage));
  EXPECT_NE(number(range.first(kPage + 1)), first);
  EXPECT_EQ(nic_.made(), 2u);
  unmap(range);
}

TEST_F(Registrations, AskingForMoreRightsMisses) {
  auto range = map();
  auto weak = number(range, 1);
  auto strong = number(range, 3);
  EXPECT_NE(weak, strong);
  EXPECT_EQ(number(range, 2), strong);
  unmap(range);
}

TEST_F(Registrations, MunmapBySystemCallAndMmapAtTheSameAddress) {
  auto range = map_below_a_hole();
  auto first = number(range);
  unmap(range);
  EXPECT_TRUE(nic_.wait_for_live(0));  // dropped without being asked again
  if (!fill(range)) GTEST_SKIP() << kTaken;
  EXPECT_NE(number(range), first);
  unmap(range);
}

TEST_F(Registrations, MmapFixedOverALiveMapping) {
  auto range = map();
  auto first = number(range);
  map_at(range.data(), kBytes);
  EXPECT_NE(number(range), first);
  unmap(range);
}

TEST_F(Registrations, UnmappingOnePageInTheMiddleIsEnough) {
  auto range = map_below_a_hole();
  auto first = number(range);
  const auto page = range.subspan(3 * kPage, kPage);
  unmap(page);
  if (!fill(page)) {
    unmap(range.first(3 * kPage));
    unmap(range.subspan(4 * kPage));
    GTEST_SKIP() << kTaken;
  }
  EXPECT_NE(number(range), first);
  unmap(range);
}

TEST_F(Registrations, Mremap) {
  auto range = map_below_a_hole();
  auto first = number(range);
  auto target = map();
  void* moved = mremap(range.data(), kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, target.data());
  ASSERT_EQ(moved, target.data());
  if (!fill(range)) {
    unmap(target);
    GTEST_SKIP() << kTaken;
  }
  EXPECT_NE(number(range), first);
  auto second = number(target);
  // The moved memory is watched too.
  map_at(target.data(), kBytes);
  EXPECT_NE(number(target), second);
  unmap(range);
  unmap(target);
}

TEST_F(Registrations, MadviseDontneed) {
  auto range = map();
  auto first = number(range);
  ASSERT_EQ(madvise(range.data() + kPage, kPage, MADV_DONTNEED), 0);
  EXPECT_NE(number(range), first);
  unmap(range);
}

TEST_F(Registrations, SharedMemoryTakenAwayByMadviseRemove) {
  void* at = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  std::span<std::byte> range{static_cast<std::byte*>(at), kBytes};
  auto first = number(range);
  EXPECT_EQ(number(range), first);
  ASSERT_EQ(madvise(at, kBytes, MADV_REMOVE), 0);
  EXPECT_NE(number(range), first);
  unmap(range);
}

TEST_F(Registrations, FreeOfABigMalloc) {
  // A mapping of its own, also when the heap keeps what other tests have freed.
  constexpr std::size_t kBig = std::size_t{1} << 30;
  for (int i = 0; i < 5; ++i) {
    std::unique_ptr<void, void (*)(void*)> memory(std::malloc(kBig), &std::free);
    std::span<std::byte> range{static_cast<std::byte*>(memory.get()), kBig};
    range[0] = std::byte{1};
    auto made = nic_.made();
    number(range);
    EXPECT_EQ(nic_.made(), made + 1);
    number(range);
    EXPECT_EQ(nic_.made(), made + 1);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_TRUE(nic_.wait_for_live(0));  // a sanitizer keeps freed memory mapped
#endif
}

TEST_F(Registrations, ALeasedRegistrationIsDroppedWhenItsLeaseEnds) {
  auto range = map();
  auto lease = cache_->acquire(range, 1).value();
  auto second = cache_->acquire(range, 1).value();
  unmap(range);
  EXPECT_EQ(cache_->stats().invalidated, 1u);
  EXPECT_EQ(nic_.live(), 1u);
  lease.end();
  EXPECT_EQ(nic_.live(), 1u);
  second.end();
  EXPECT_EQ(nic_.live(), 0u);
}

TEST_F(Registrations, CountAndBytesAreBounded) {
  open({.max_count = 4, .max_bytes = 3 * kBytes});
  std::vector<std::span<std::byte>> ranges;
  for (int i = 0; i < 5; ++i) ranges.push_back(map());
  for (auto range : ranges) number(range);
  EXPECT_EQ(nic_.live(), 3u);  // bytes
  for (int i = 0; i < 5; ++i) number(ranges[std::size_t(i)].first(1));
  EXPECT_LE(nic_.live(), 4u);
  EXPECT_LE(cache_->stats().entries, 4u);
  EXPECT_GT(cache_->stats().evicted, 0u);
  // The most recent one is still there.
  auto made = nic_.made();
  number(ranges[4].first(1));
  EXPECT_EQ(nic_.made(), made);
  for (auto range : ranges) unmap(range);
}

TEST_F(Registrations, WhatDoesNotFitBesidesTheLeasedIsNotCached) {
  open({.max_count = 1});
  auto a = map();
  auto b = map();
  auto held = cache_->acquire(a, 1).value();
  auto first = number(b);
  EXPECT_EQ(nic_.live(), 1u);  // dropped at once
  EXPECT_NE(number(b), first);
  held.end();
  auto cached = number(b);
  EXPECT_EQ(number(b), cached);
  unmap(a);
  unmap(b);
}

TEST_F(Registrations, MemoryThatCannotBeWatchedIsNotCached) {
  FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(ftruncate(fileno(file), kBytes), 0);
  void* at = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fileno(file), 0);
  ASSERT_NE(at, MAP_FAILED);
  std::span<std::byte> range{static_cast<std::byte*>(at), kBytes};
  auto first = number(range);
  // Either this file system can be watched and then it hits, or it is registered each time.
  if (cache_->stats().entries == 0) {
    EXPECT_NE(number(range), first);
    EXPECT_EQ(nic_.live(), 0u);
  }
  munmap(at, kBytes);
  std::fclose(file);
}

TEST_F(Registrations, WithoutCachingEveryLeaseIsARegistration) {
  open({.caching = false});
  EXPECT_FALSE(cache_->caching());
  EXPECT_NE(cache_->why_not().find("options"), std::string::npos);
  auto range = map();
  EXPECT_NE(number(range), number(range));
  EXPECT_EQ(nic_.live(), 0u);
  unmap(range);
}

// Makes userfaultfd fail for good in this process, as a container's profile does.
void forbid_userfaultfd() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{4, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(77);
}

TEST_F(Registrations, WhereUserfaultfdIsRefusedNothingIsCached) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    forbid_userfaultfd();
    Nic nic;
    RegistrationCache cache({}, nic.maker(), nic.dropper());
    auto range = map();
    for (int i = 0; i < 2; ++i)
      if (!cache.acquire(range, 1)) _exit(1);
    if (cache.caching() || nic.made() != 2 || nic.live() != 0) _exit(2);
    _exit(cache.why_not().find("seccomp") != std::string::npos ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Registrations, FailuresPassThroughAndLeaveNothing) {
  auto range = map();
  nic_.refuse = true;
  EXPECT_EQ(cache_->acquire(range, 1).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(cache_->acquire({}, 1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache_->stats().entries, 0u);
  EXPECT_EQ(cache_->stats().bytes, 0u);
  nic_.refuse = false;
  number(range);
  unmap(range);
}

TEST_F(Registrations, AChildMayEndWithACopyOfTheCache) {
  auto range = map();
  number(range);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // ends the child should it hang
    munmap(range.data(), range.size());
    cache_.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  auto made = nic_.made();
  number(range);
  EXPECT_EQ(nic_.made(), made);  // the child's munmap is not ours
  unmap(range);
}

}  // namespace
}  // namespace ferry::memory
