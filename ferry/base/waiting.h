#pragma once

#include <chrono>

#include "ferry/base/clock.h"

// How the library waits: every constant of spinning, yielding and sleeping, with its reason.
// docs/design/fabric.md, "Who spins how long", has the whole picture. The unit costs behind the
// numbers, on two EPYC cores: a pause 23 ns, a look at the clock 20 ns, epoll_wait() that finds
// nothing 0.1 us, a yield 0.4 us, a wake-up of a thread 2 us at best, and tens of
// microseconds on busy cores.
//
// Not here: deadlines (how long an answer may take), and the backoff of a protocol that dials or
// writes a file again. These belong to the protocol, not to the processor.
//
// "Not measured" marks a bound that, as far as is known, any value of its order serves as.
namespace ferry::waiting {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Locks of a few instructions.

// Pauses before a spinner on a lock yields: 5 us. A holder that still has its core leaves within
// 1 us; one that has lost it needs ours. Not measured.
inline constexpr int kLockPauses = 200;

// Spinning in a wait (SpinBudget).

// Before a waiter sleeps: as long as a wake-up takes on a busy machine, so that spinning and then
// sleeping costs at most twice the better of the two (docs/design/tuning.md). Calibration measures
// a path's own value and replaces this one.
inline constexpr Nanos kSpin = microseconds(50);
// gRPC's threads, whose rounds take longer: 24 us at best (64 B, 16 cores). Generous, because they
// learn by themselves whether it pays, and not calibrated for the same reason.
inline constexpr Nanos kGrpcSpin = microseconds(200);
// What calibration may choose, and what a file or a peer may ask for.
inline constexpr Nanos kShortestSpin = microseconds(5);
inline constexpr Nanos kLongestSpin = microseconds(200);
inline constexpr Nanos kMostSpin = milliseconds(10);
// Pauses between two looks at the clock, at which the spinner also yields: 64 pauses are 1.5 us, so
// clock and yield take a quarter of the time.
inline constexpr unsigned kPausesPerYield = 64;
// The same where others have just run, or where each iteration is a system call: 64 gRPC clients on
// two cores made 29,000 calls/s with it, and 26,000 without.
inline constexpr unsigned kPausesPerYieldCrowded = 8;
// A yield that took this long gave the core to others: that time is not the spinner's own. Pauses
// and a yield alone take 2 us.
inline constexpr Nanos kOthersRan = microseconds(20);
// Yields to others after which a spinner sleeps, since what it waits for plainly takes long...
inline constexpr unsigned kMostYields = 200;
// ...and where each iteration is a system call: a third of all CPU of those 64 clients went into
// recv() calls that found nothing.
inline constexpr unsigned kMostYieldsCostly = 2;
// Waits in a row that were longer than two spins, after which the next ones do not spin at all
// (loop, gRPC's threads): one slow answer among fast ones is to end no spinning. Not measured.
inline constexpr unsigned kVainSpins = 4;
// gRPC's threads then spin only in every 16th wait, to learn whether it pays again.
inline constexpr unsigned kTrySpinEvery = 16;

// A wait of the loop (Loop::wait_until).

// Looks at the condition for each burst of progress: a flag by shared memory needs no progress.
inline constexpr int kLooksPerBurst = 4;
// Bursts between two looks at the clock for deadlines and ticks.
inline constexpr unsigned kBurstsPerClock = 32;
// Bursts of a waiter that is to sleep at once: 1 us, and what has nearly come spares a sleep.
inline constexpr unsigned kBurstsBeforeSleep = 4;
// A spinner asks epoll this often for what its sources do not try by themselves. At 0.1 us a call
// that is a thousandth of its time.
inline constexpr Nanos kAskEpoll = microseconds(100);
// Between two searches for expired and cancelled operations, and the longest sleep while there are
// some: the precision of a deadline.
inline constexpr Nanos kTick = milliseconds(10);
// The longest sleep of a waiter that nothing is pending for. A bound for a lost wake-up, which the
// protocol of the sleepers excludes.
inline constexpr Nanos kLongestSleep = seconds(1);

// The short looks before a wait of the loop begins. What a peer on the same host stores mostly
// comes within the first of them.

// Channel::wait_flag, in line: 0.7 us. Leaving this loop costs a few nanoseconds, leaving the
// loop's wait some 30 (docs/design/ordering-and-flags.md).
inline constexpr int kFlagLooksInline = 32;
// The same, called: some microseconds, in runs between which the lane is asked for work.
inline constexpr int kFlagLooks = 128;
inline constexpr int kFlagLooksPerRun = 8;
// Of a mailbox on a mapped path: 1.5 us, before it looks at all that it serves.
inline constexpr int kMailLooks = 64;

// The poller of a loop (a thread that makes progress when no user thread does).

// Its sleep while user threads make progress. In 2 ms a waiter mostly gets a core again; a
// poller that takes its events costs it a wake-up (15 % of the CPU of 64 clients went there).
inline constexpr Nanos kPollerAway = milliseconds(2);
// The same while a thread sleeps on the loop's descriptor in an event loop of its own: that thread
// is rung, and the poller only makes up for what it is too busy to see.
inline constexpr Nanos kPollerAwayFromGuest = milliseconds(20);
// Its sleep in epoll when nothing is pending. Also how often it is seen to be alive.
inline constexpr Nanos kPollerIdle = milliseconds(100);
// A control loop that nobody has seen to for three of these sleeps starves: waiters of other loops
// stand in.
inline constexpr Nanos kStarved = milliseconds(300);
// The control loop's poller spins for the next question if the last two came within this time.
// Heartbeats are no series: spinning after each of them took a sixth of the CPU of 64 clients.
inline constexpr Nanos kSeries = microseconds(500);
// Questions that it answers in one series, so that a peer that never stops asking holds up nothing.
inline constexpr int kMostSeries = 1000;

// Shared memory.

// Fruitless looks of a loop at a lane before the doorbell's bit is cleared: 256 looks are tens of
// microseconds, and while the bit is set neither end writes the word.
inline constexpr unsigned kDoorbellLooks = 256;
// Yields of the owner of a revoked grant before its service thread is woken: a copy that still runs
// has 64 KiB at most, 6 us.
inline constexpr int kRevokeYields = 16;
// A writer that waits for pieces which a helper has claimed: pauses between two looks at whether
// the lane is up, and between two yields (0.1 ms: a piece of 256 KiB takes 25 us).
inline constexpr unsigned kHelperPausesPerLook = 64;
inline constexpr unsigned kHelperPausesPerYield = 4096;
// Between two looks for a block that a peer has announced: one packet on a local socket.
inline constexpr Nanos kAnnouncedBlock = microseconds(20);
// The service thread: while something waits for room or for a thread of this process; while
// newcomers may stall; and else, when it is woken for all that matters.
inline constexpr Nanos kServiceSoon = milliseconds(1);
inline constexpr Nanos kServiceGreets = milliseconds(100);
inline constexpr Nanos kServiceIdle = seconds(1);

// Tcp.

// Fruitless looks at a socket after which what is late leaves: some 50 us of spinning. A look that
// found something may take much longer, and counts as eight.
inline constexpr unsigned kLateLooks = 128;
inline constexpr unsigned kLateLooksFruitful = 8;
// Fruitless tries after which a lane is not hot any more, and fruitless bursts between two tries of
// one that is not, since a recv() that finds nothing is a system call. Not measured.
inline constexpr unsigned kHotTries = 512;
inline constexpr unsigned kColdTryEvery = 8;
// Lanes that a spinning loop tries one by one. With more it asks epoll which have something: a
// server that tried 64 at each iteration did half of gRPC's calls, this being one of the causes.
inline constexpr std::size_t kLanesTried = 4;

// Verbs: bursts of completions that a closing lane takes in, however busy the other lanes are.
inline constexpr int kLastBursts = 64;

// gRPC's threads: services of connections between two looks at gRPC's own descriptors, which are a
// system call each.
inline constexpr unsigned kGrpcLookEvery = 16;
// Rounds in which an endpoint looks again at what came while it worked, before it wakes another.
inline constexpr int kGrpcRechecks = 4;

// Threads that serve messages or a shard, and have a condition of their own besides: how long they
// sleep in a wait of the loop before they look at it. They are woken for all that matters, so these
// bound only how late they learn of a newcomer, a stop or a peer's end.
inline constexpr Nanos kMailHubSleep = milliseconds(10);
// The hub's thread stays away while and this long after a user's thread receives in its place: one
// that receives in a series is back within 2 ms, as with kPollerAway.
inline constexpr Nanos kMailHubAway = milliseconds(2);
inline constexpr Nanos kShardSleep = milliseconds(100);
inline constexpr Nanos kAnswerSleep = milliseconds(50);  // of who waits for an answer of a role

}  // namespace ferry::waiting
