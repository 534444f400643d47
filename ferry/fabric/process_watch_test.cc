#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/process_watch_internal.h"

namespace ferry::fabric {
namespace {

struct Deaf : Loop::Source {
  int progress_on_loop() override { return 0; }
};

constexpr int kMostDescriptors = 1024;

// What a watch says when events for all descriptors come, of which most are of old ones.
std::int32_t ended_process(ProcessWatch& watch) {
  for (int fd = 3; fd < kMostDescriptors; ++fd)
    if (const auto pid = watch.ended_on_loop(fd); pid.value_or(0) != 0) return *pid;
  return 0;
}

bool is_watched(ProcessWatch& watch) {
  for (int fd = 3; fd < kMostDescriptors; ++fd)
    if (watch.ended_on_loop(fd)) return true;
  return false;
}

// An event for a descriptor that was closed, whose number the descriptor of a process has got.
TEST(ProcessWatch, DoesNotTakeALivingProcessForOneThatHasEnded) {
  Deaf source;  // outlives the loop, whose thread may be about to call it
  auto loop = Loop::open("test", std::chrono::microseconds(20)).value();
  const auto child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  PeerIdentity peer = identity_of_this_process("");
  peer.pid = child;
  ProcessWatch watch(*loop, source, identity_of_this_process(""));
  watch.add_on_loop(peer);
  const bool watched = is_watched(watch);
  EXPECT_EQ(ended_process(watch), 0);
  EXPECT_EQ(is_watched(watch), watched) << "a stale event ends the watch";
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  if (!watched) GTEST_SKIP() << "the kernel has no pidfd for us";
  EXPECT_EQ(ended_process(watch), child);
  EXPECT_FALSE(is_watched(watch));
  watch.remove_on_loop(peer);
}

}  // namespace
}  // namespace ferry::fabric
