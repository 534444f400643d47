#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "ferry/fabric/shm/in_flight_internal.h"

namespace ferry::fabric::shm {
namespace {

TEST(InFlight, SectionsThatRanBeforeAreWaitedForLaterOnesAreNot) {
  std::atomic<int> step{0};
  std::thread toucher([&] {
    std::optional<InFlight::Section> section(std::in_place);
    step.store(1);
    while (step.load() != 2) std::this_thread::yield();
    section.reset();
    section.emplace();
    step.store(3);
    while (step.load() != 4) std::this_thread::yield();
  });
  while (step.load() != 1) std::this_thread::yield();
  auto running = InFlight::Running::now();
  EXPECT_FALSE(running.ended());
  step.store(2);
  while (step.load() != 3) std::this_thread::yield();
  EXPECT_TRUE(running.ended());  // although the thread is in a new section
  step.store(4);
  toucher.join();
  EXPECT_TRUE(InFlight::Running::now().ended());
}

}  // namespace
}  // namespace ferry::fabric::shm
