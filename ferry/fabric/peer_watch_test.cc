#include <gtest/gtest.h>

#include "ferry/fabric/peer_watch_internal.h"

namespace ferry::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = PeerWatch::Verdict;

// Looks every 100 ms until there is a verdict, and says after how long; an hour is for ever.
Nanos until(PeerWatch& watch, Verdict wanted, bool acknowledged = true) {
  for (Nanos time(0); time < std::chrono::hours(1); time += milliseconds(100)) {
    const auto verdict = watch.look(milliseconds(100), acknowledged);
    if (verdict == wanted) return time + milliseconds(100);
    if (verdict != Verdict::kNothingNew) break;
  }
  return Nanos(-1);
}

TEST(PeerWatch, BySelfAloneNamesSilenceAfterThreeSecondsAndGivesUpAfterSixty) {
  const Options options;
  EXPECT_EQ(options.give_up, seconds(60));
  EXPECT_EQ(options.operation_deadline, seconds(60));
  PeerWatch watch(PeerWatch::Limits::of(options));
  EXPECT_EQ(until(watch, Verdict::kSilent), seconds(3));
  EXPECT_TRUE(watch.silent());
  EXPECT_EQ(until(watch, Verdict::kGiveUp), seconds(57));
  EXPECT_EQ(watch.silence(), seconds(60));
}

TEST(PeerWatch, SaysOnceThatThePeerSpeaksAgain) {
  PeerWatch watch(PeerWatch::Limits::of({}));
  EXPECT_EQ(until(watch, Verdict::kSilent), seconds(3));
  watch.hear();
  EXPECT_EQ(watch.look(milliseconds(100), true), Verdict::kSpeaks);
  EXPECT_EQ(watch.ended_silence(), seconds(3));
  EXPECT_FALSE(watch.silent());
  watch.hear();
  EXPECT_EQ(watch.look(milliseconds(100), true), Verdict::kNothingNew);
  EXPECT_EQ(until(watch, Verdict::kSilent), seconds(3));
}

TEST(PeerWatch, AHostThatAcknowledgesNothingIsGoneSooner) {
  PeerWatch watch(PeerWatch::Limits::of({}));
  EXPECT_EQ(until(watch, Verdict::kSilent, false), seconds(3));
  EXPECT_EQ(watch.look(milliseconds(100), true),
            Verdict::kNothingNew);  // one that does begins anew
  EXPECT_EQ(until(watch, Verdict::kHostGone, false), seconds(10));
}

// The last ping may be on its way when the peer is looked at.
TEST(PeerWatch, AnAcknowledgementThatIsOnItsWayIsNotMissing) {
  PeerWatch alive(PeerWatch::Limits::of({}));
  for (int look = 0; look < 30; ++look) (void)alive.look(milliseconds(100), look % 6 < 3);
  EXPECT_TRUE(alive.silent());
  EXPECT_GT(alive.unacknowledged(), Nanos(0));
  EXPECT_TRUE(alive.host_answers());
  // Nobody asks the kernel before there are doubts.
  PeerWatch gone(PeerWatch::Limits::of({}));
  for (int look = 0; look < 30; ++look)
    (void)gone.look(milliseconds(100), !gone.doubts(milliseconds(100)));
  EXPECT_TRUE(gone.silent());
  EXPECT_FALSE(gone.host_answers());
}

// What this process slept through, it could not have heard.
TEST(PeerWatch, CountsOnlyTimeInWhichItCouldHear) {
  PeerWatch watch(PeerWatch::Limits::of({}));
  for (int look = 0; look < 29; ++look)
    EXPECT_EQ(watch.look(milliseconds(100), false), Verdict::kNothingNew);
  EXPECT_EQ(watch.look(Nanos(0), false), Verdict::kNothingNew);
  EXPECT_EQ(watch.look(milliseconds(100), false), Verdict::kSilent);
}

// A gap of up to a second used to count in full: with a short `give_up`, one was enough.
TEST(PeerWatch, CountsLittleOfALongGap) {
  EXPECT_EQ(PeerWatch::awake_in(milliseconds(110)), milliseconds(110));
  EXPECT_LE(PeerWatch::awake_in(milliseconds(900)), milliseconds(200));
  EXPECT_LE(PeerWatch::awake_in(seconds(900)), milliseconds(200));
}

// Bytes that have come and are not read used to be looked for only if the silence was long before.
TEST(PeerWatch, HasDoubtsBeforeEveryLookThatGivesUp) {
  Options options;
  for (const Nanos give_up : {Nanos(seconds(1)), Nanos(seconds(2)), Nanos(seconds(60))}) {
    options.give_up = give_up;
    for (const auto awake : {milliseconds(100), milliseconds(200), milliseconds(1000)}) {
      PeerWatch watch(PeerWatch::Limits::of(options));
      for (bool doubts = false;;) {
        doubts = watch.doubts(awake);
        if (watch.look(awake, true) != Verdict::kGiveUp) continue;
        EXPECT_TRUE(doubts);
        break;
      }
    }
  }
}

TEST(PeerWatch, PatienceScalesTheNoticeAndNotTheEnd) {
  Options options;
  options.patience = 2;
  options.give_up = seconds(20);
  PeerWatch watch(PeerWatch::Limits::of(options));
  EXPECT_EQ(until(watch, Verdict::kSilent), seconds(6));
  EXPECT_EQ(until(watch, Verdict::kGiveUp), seconds(14));
}

TEST(PeerWatch, AsksOftenEnoughForAShortSilence) {
  Options options;
  options.give_up = seconds(1);
  PeerWatch watch(PeerWatch::Limits::of(options));
  int pings = 0;
  for (int look = 0; look < 10; ++look) pings += watch.ping_is_due(milliseconds(100)) ? 1 : 0;
  EXPECT_GE(pings, 3);
}

}  // namespace
}  // namespace ferry::fabric
