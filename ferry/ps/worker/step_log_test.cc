#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "ferry/ps/worker/step_log_internal.h"

namespace ferry::ps {
namespace {

using State = StepState;
using Event = StepEvent;

constexpr std::array kStates = {State::kComplete, State::kPosting, State::kIncomplete,
                                State::kResending, State::kEndOwed};
constexpr std::array kEvents = {Event::kPost, Event::kPosted,  Event::kPostedEnded,
                                Event::kFail, Event::kRestart, Event::kEnd};

TEST(StepLog, AnEventComesOnlyInTheStatesThatTheTableNames) {
  const std::map<std::pair<State, Event>, State> allowed = {
      {{State::kComplete, Event::kPost}, State::kPosting},
      {{State::kComplete, Event::kEnd}, State::kComplete},
      {{State::kPosting, Event::kPosted}, State::kComplete},
      {{State::kPosting, Event::kFail}, State::kIncomplete},
      {{State::kResending, Event::kPosted}, State::kComplete},
      {{State::kResending, Event::kPostedEnded}, State::kEndOwed},
      {{State::kResending, Event::kFail}, State::kIncomplete},
      {{State::kEndOwed, Event::kEnd}, State::kComplete},
  };
  for (const auto state : kStates)
    for (const auto event : kEvents) {
      const auto found = allowed.find({state, event});
      const auto next = next_state(state, event);
      if (event == Event::kRestart)
        EXPECT_EQ(next, State::kResending);
      else if (found == allowed.end())
        EXPECT_FALSE(next) << static_cast<int>(state) << " " << static_cast<int>(event);
      else
        EXPECT_EQ(next, found->second);
    }
}

TEST(StepLog, AStepIsPostedAndEnded) {
  StepLog log;
  log.enter(7, 2);
  EXPECT_EQ(log.open(), 8U);
  log.record_open_step();
  log.record({.parameter = 3});
  log.begin_post();
  EXPECT_EQ(log.posting(), 8U);
  EXPECT_EQ(log.due(), StepAction::kNone);
  log.posted();
  log.record_open_step();  // a second push of the same step
  EXPECT_EQ(log.records(8).size(), 1U);
  EXPECT_TRUE(log.records(7).empty());
  log.end();
  EXPECT_EQ(log.ended(), 8U);
  EXPECT_EQ(log.records(8).size(), 1U) << "it may be restarted until it is applied";
  log.record_open_step();
  EXPECT_TRUE(log.records(9).empty());
}

TEST(StepLog, AStepThatIsPostedInPartIsRefusedUntilItIsRestarted) {
  StepLog log;
  log.record_open_step();
  log.begin_post();
  log.fail();
  EXPECT_EQ(log.due(), StepAction::kRefuse);
  log.announce(1);
  EXPECT_EQ(log.due(), StepAction::kRestart);
  log.restart(1, 1);
  EXPECT_EQ(log.state(), State::kResending);
  log.posted();
  EXPECT_EQ(log.due(), StepAction::kNone);
  log.end();
  EXPECT_EQ(log.ended(), 1U);
}

TEST(StepLog, AnEndedStepThatIsRestartedOwesItsEnd) {
  StepLog log;
  log.end();
  log.announce(1);
  log.restart(1, 1);
  log.posted();
  EXPECT_EQ(log.due(), StepAction::kPostEnd);
  log.end();
  EXPECT_EQ(log.due(), StepAction::kNone);
  EXPECT_EQ(log.ended(), 1U) << "the END of a restarted step counts once";
}

TEST(StepLog, AStepBeforeTheWorkerCameOwesNoEnd) {
  StepLog log;
  log.enter(4, 0);
  log.announce(1);
  log.restart(1, 4);
  log.posted();
  EXPECT_EQ(log.due(), StepAction::kNone);
}

TEST(StepLog, AnAnnouncedRestartStaysDueThoughItsShardIsGone) {
  StepLog log;
  log.announce(3);
  log.announce(1);
  EXPECT_EQ(log.due(), StepAction::kRestart);
  EXPECT_EQ(log.announced(), 3U);
}

// Plays a worker against shards that restart steps at any time, and calls that fail at any entry.
class RandomSteps {
 public:
  explicit RandomSteps(unsigned seed) : random_(seed) {}

  void play(int calls) {
    for (int call = 0; call < calls; ++call) {
      if (one_in(3)) push();
      if (one_in(3)) end();
      if (one_in(4)) apply_step();
      if (one_in(8)) ++shards_attempt_;
    }
  }
  std::uint64_t ended() const { return log_.ended(); }
  std::uint64_t restarts() const { return restarts_; }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  void hear() {
    if (one_in(2)) log_.announce(shards_attempt_);
  }

  // Entries land under their attempt; shards have forgotten those of older ones.
  enum class Posted { kAll, kInterrupted, kFailed };
  Posted post(Parameter parameter) {
    for (int entry = 0; entry < 3; ++entry) {
      hear();
      if (log_.is_restart_due()) return Posted::kInterrupted;
      if (one_in(20)) return Posted::kFailed;
      auto& landed = landed_[{log_.posting(), log_.attempt()}];
      EXPECT_TRUE(landed.insert({parameter, entry}).second) << "an entry is posted twice";
    }
    return Posted::kAll;
  }

  // What the driver loop of a worker does. False: the call has failed.
  bool catch_up() {
    for (;;) switch (log_.due()) {
        case StepAction::kNone:
          return true;
        case StepAction::kRefuse:
          hear();
          if (log_.due() == StepAction::kRefuse) return false;
          break;
        case StepAction::kRestart:
          if (one_in(10)) return false;  // shards do not say so in time
          if (!resend()) return false;
          break;
        case StepAction::kPostEnd:
          hear();
          if (log_.is_restart_due()) break;
          if (one_in(10)) return false;
          post_end();
      }
  }
  bool resend() {
    ++restarts_;
    log_.restart(log_.announced(), applied_ + 1);
    for (const auto& record : log_.records(log_.posting())) {
      const auto outcome = post(record.parameter);
      if (outcome == Posted::kInterrupted) return true;
      if (outcome == Posted::kFailed) {
        log_.fail();
        return false;
      }
    }
    log_.posted();
    return true;
  }
  void post_end() {
    const auto step = log_.state() == State::kEndOwed ? log_.posting() : log_.open();
    const auto& landed = landed_[{step, log_.attempt()}];
    EXPECT_EQ(landed.size(), 3 * pushed_[step].size()) << "END before all is posted";
    ends_.insert({step, log_.attempt()});
    log_.end();
  }

  // Waits for the step before, as long as the call's time lasts.
  bool flush() {
    for (int looks = 0; looks < 4; ++looks) {
      if (!catch_up()) return false;
      if (log_.ended() == applied_) return true;
      apply_step();
      hear();
    }
    return false;
  }
  void push() {
    if (!flush()) return;
    const auto parameter = static_cast<Parameter>(pushed_[log_.open()].size());
    log_.record_open_step();
    log_.record({.parameter = parameter});
    pushed_[log_.open()].insert(parameter);
    log_.begin_post();
    switch (post(parameter)) {
      case Posted::kAll:
        return log_.posted();
      case Posted::kFailed:
        return log_.fail();
      case Posted::kInterrupted:
        (void)catch_up();
    }
  }
  void end() {
    if (!flush()) return;
    post_end();
  }
  // The shards have END of the last attempt, which the worker has heard of.
  void apply_step() {
    if (ends_.contains({applied_ + 1, shards_attempt_})) ++applied_;
  }

  std::mt19937 random_;
  StepLog log_;
  std::uint64_t restarts_ = 0;
  std::uint64_t applied_ = 0;
  std::uint32_t shards_attempt_ = 0;
  std::map<std::uint64_t, std::set<Parameter>> pushed_;  // by step
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<std::pair<Parameter, int>>> landed_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> ends_;
};

TEST(StepLog, NoEndIsPostedBeforeAllOfItsAttemptIsWhateverFails) {
  std::uint64_t ended = 0;
  std::uint64_t restarts = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomSteps steps(seed);
    steps.play(200);
    ended += steps.ended();
    restarts += steps.restarts();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(ended, 10'000U);
  EXPECT_GT(restarts, 10'000U);
}

}  // namespace
}  // namespace ferry::ps
