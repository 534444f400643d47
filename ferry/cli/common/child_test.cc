#include "ferry/cli/common/child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::cli {
namespace {

using namespace std::chrono_literals;

std::string all_that(ChildProgram& child) {
  std::string text;
  for (;;) {
    const auto part = child.read_some(Deadline::after(20s));
    if (!part || part->empty()) return text;
    text += *part;
  }
}

TEST(ChildPrograms, SaysWhatAProgramSaidAndHowItEnded) {
  auto both = ChildProgram::start("/bin/sh", {"-c", "echo out; echo err >&2; exit 3"},
                                  Complaints::kWithTheRest);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(all_that(*both), "out\nerr\n");
  EXPECT_EQ(both->wait(20s), 3);
  auto killed = ChildProgram::start("/bin/sh", {"-c", "kill -TERM $$"});
  ASSERT_TRUE(killed.has_value());
  EXPECT_EQ(killed->wait(20s), 128 + SIGTERM);
}

TEST(ChildPrograms, EndsWhatTheChildHadStartedAndHowEverStubbornItIs) {
  InterruptGuard guard;
  // The child heeds SIGTERM, but what it started does not.
  auto child = ChildProgram::start(
      "/bin/sh", {"-c", "(trap '' TERM; echo $$; exec sleep 600) & trap 'exit 0' TERM; wait"});
  ASSERT_TRUE(child.has_value());
  const auto line = child->read_line(Deadline::after(20s));
  ASSERT_TRUE(line.has_value());
  child->end(20s);
  EXPECT_EQ(kill(-std::stoi(*line), 0), -1);
}

TEST(InterruptGuards, TheExitCodeOfAnInterruptNamesTheSignal) {
  for (int signal : {SIGINT, SIGTERM}) {
    InterruptGuard guard;
    EXPECT_EQ(InterruptGuard::exit_code(), 0);
    raise(signal);
    EXPECT_EQ(InterruptGuard::exit_code(), 128 + signal);
  }
}

}  // namespace
}  // namespace ferry::cli
