#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "ferry/fabric/shm/in_flight_internal.h"

namespace ferry::fabric::shm {
namespace {

TEST(InFlight, SectionsThatRanBeforeAreWaitedForLaterOnesAreNot) {
  std::atomic<int> step{0};
  std::thread toucher([&] {
    auto section = std::make_unique<InFlight::Section>(InFlight::Memory::kOwn);
    step.store(1);
    while (step.load() != 2) std::this_thread::yield();
    section.reset();
    section = std::make_unique<InFlight::Section>(InFlight::Memory::kOwn);
    step.store(3);
    while (step.load() != 4) std::this_thread::yield();
  });
  while (step.load() != 1) std::this_thread::yield();
  auto running = InFlight::Running::now(InFlight::Memory::kOwn);
  EXPECT_FALSE(running.ended());
  step.store(2);
  while (step.load() != 3) std::this_thread::yield();
  EXPECT_TRUE(running.ended());  // although the thread is in a new section
  step.store(4);
  toucher.join();
  EXPECT_TRUE(InFlight::Running::now(InFlight::Memory::kBoth).ended());
}

TEST(InFlight, ASectionOnPeersMemoryKeepsNobodyFromOwnMemory) {
  using Memory = InFlight::Memory;
  auto seen_busy = [](Memory section_on, Memory asked) {
    std::atomic<int> step{0};
    std::thread toucher([&] {
      InFlight::Section section(section_on);
      step.store(1);
      while (step.load() != 2) std::this_thread::yield();
    });
    while (step.load() != 1) std::this_thread::yield();
    bool busy = !InFlight::Running::now(asked).ended();
    step.store(2);
    toucher.join();
    return busy;
  };
  EXPECT_FALSE(seen_busy(Memory::kPeers, Memory::kOwn));
  EXPECT_FALSE(seen_busy(Memory::kOwn, Memory::kPeers));
  EXPECT_TRUE(seen_busy(Memory::kPeers, Memory::kPeers));
  EXPECT_TRUE(seen_busy(Memory::kBoth, Memory::kOwn));
  EXPECT_TRUE(seen_busy(Memory::kOwn, Memory::kBoth));
}

}  // namespace
}  // namespace ferry::fabric::shm
