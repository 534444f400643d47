#include <gtest/gtest.h>

#include "ferry/ps/wire/abort_cause_internal.h"

namespace ferry::ps {
namespace {

using AbortKind = AbortCause::Kind;

TEST(AbortCauseTest, IsAWordAboveEveryAttemptAndReadBack) {
  for (const auto kind :
       {AbortKind::kOther, AbortKind::kWorkersDied, AbortKind::kServerLost,
        AbortKind::kBothCopiesLost, AbortKind::kStateNotWritten, AbortKind::kBreach}) {
    const AbortCause cause{.kind = kind, .number = ~0U, .other = 1023};
    EXPECT_TRUE(AbortCause::is_word(cause.to_word()));
    EXPECT_EQ(AbortCause::from_word(cause.to_word()), cause);
  }
  EXPECT_FALSE(AbortCause::is_word(~std::uint32_t{0}));
}

TEST(AbortCauseTest, NamesWhatIsKnown) {
  JobOptions job;
  job.most_dead = 2;
  const auto say = [&](const AbortCause& cause) {
    return cause.describe(
        job, [](std::uint32_t server) { return server == 1 ? std::string("a:1") : std::string(); });
  };
  EXPECT_EQ(say({AbortKind::kWorkersDied, 3}), "3 workers have died, 2 may; the job has ended");
  EXPECT_EQ(say({AbortKind::kServerLost, 1}),
            "server 1 at a:1 is gone, and its blocks with it; the job has ended");
  EXPECT_EQ(say({AbortKind::kBothCopiesLost, 1, 2}),
            "server 1 at a:1 and server 2 are gone, and both copies of some blocks with them; the "
            "job has ended; begin anew from the last snapshot");
  EXPECT_EQ(say({AbortKind::kStateNotWritten}),
            "the scheduler cannot keep its state; the job has ended");
  EXPECT_EQ(say({AbortKind::kBreach, static_cast<std::uint32_t>(Breach::kTwice)}),
            "a server hears this worker no more, since it broke the protocol: it pushed a block "
            "twice in one step; the job goes on");
}

// What a peer may write, too.
TEST(AbortCauseTest, SaysSomethingOfWhatIsNotKnown) {
  const auto none = [](std::uint32_t /*server*/) { return std::string(); };
  EXPECT_EQ(AbortCause::from_word(~std::uint64_t{0}).describe({}, none),
            "the job has ended; the scheduler's log says why");
  EXPECT_NE(AbortCause({AbortKind::kBreach, 4711}).describe({}, none).find("that cannot be"),
            std::string::npos);
}

}  // namespace
}  // namespace ferry::ps
