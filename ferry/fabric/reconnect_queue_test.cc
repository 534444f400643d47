#include <gtest/gtest.h>

#include "ferry/fabric/reconnect_queue_internal.h"

namespace ferry::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FakeSession {
  bool lives = true;
  Nanos silence{0};

  bool alive() const { return lives; }
  Nanos silent_for() const { return silence; }
};

class Reconnecting : public ::testing::Test {
 protected:
  // Lets the try take all of its time, in vain. Whether the peer may go on.
  bool fail(const ReconnectQueue<FakeSession>::Try& attempt) {
    now_ += attempt.limit.count();
    return queue_.failed(attempt, now_, attempt.limit);
  }
  std::shared_ptr<FakeSession> hostile_ = std::make_shared<FakeSession>();
  std::shared_ptr<FakeSession> honest_ = std::make_shared<FakeSession>();
  std::int64_t now_ = 1;
  ReconnectQueue<FakeSession> queue_{{.first_try = seconds(1),
                                      .longest_try = seconds(10),
                                      .pause = milliseconds(50),
                                      .total = seconds(60)}};
};

// Each frame by which a peer asks used to take memory, and a try.
TEST_F(Reconnecting, OfOneLaneIsAskedForOnceHoweverOftenThePeerSaysSo) {
  for (int frame = 0; frame < 10'000; ++frame)
    queue_.add(hostile_, static_cast<std::uint32_t>(frame % 2));
  EXPECT_EQ(queue_.lanes(), 2U);
  for (int frame = 0; frame < 10'000; ++frame) {
    auto attempt = queue_.next(now_);
    ASSERT_TRUE(attempt);
    queue_.add(hostile_, attempt->lane);  // it breaks again meanwhile
    queue_.reconnected(*attempt);
  }
  EXPECT_EQ(queue_.lanes(), 2U);
}

TEST_F(Reconnecting, OfAPeerThatDoesNotAnswerLetsOthersHaveTheirTurn) {
  for (std::uint32_t lane = 0; lane < 64; ++lane) queue_.add(hostile_, lane);
  queue_.add(honest_, 7);
  auto attempt = queue_.next(now_);
  ASSERT_TRUE(attempt);
  EXPECT_EQ(attempt->session, hostile_);
  EXPECT_EQ(attempt->limit, seconds(1));
  EXPECT_TRUE(fail(*attempt));
  attempt = queue_.next(now_);
  ASSERT_TRUE(attempt);
  EXPECT_EQ(attempt->session, honest_);
  EXPECT_EQ(attempt->lane, 7U);
  queue_.reconnected(*attempt);
  EXPECT_FALSE(queue_.next(now_)) << "the other one waits for a moment after its try";
  now_ += Nanos(milliseconds(50)).count();
  attempt = queue_.next(now_);
  ASSERT_TRUE(attempt);
  EXPECT_EQ(attempt->session, hostile_);
  EXPECT_EQ(attempt->limit, seconds(2));
}

// It used to be tried for ever.
TEST_F(Reconnecting, EndsWhenTheTimeOfAllTriesIsSpent) {
  for (std::uint32_t lane = 0; lane < 64; ++lane) queue_.add(hostile_, lane);
  Nanos spent{0};
  for (;;) {
    now_ += Nanos(milliseconds(50)).count();
    auto attempt = queue_.next(now_);
    ASSERT_TRUE(attempt);
    EXPECT_LE(attempt->limit, seconds(10));
    spent += attempt->limit;
    ASSERT_LT(spent, seconds(80));
    if (fail(*attempt)) continue;
    queue_.drop(*attempt);
    break;
  }
  EXPECT_GE(spent, seconds(60));
  EXPECT_TRUE(queue_.empty());
}

// The error of a peer that answers at once that it is late costs time, too.
TEST_F(Reconnecting, EndsAlsoWhenTriesTakeNoTime) {
  queue_.add(hostile_, 0);
  int tries = 1;
  for (; tries < 10'000; ++tries) {
    auto attempt = queue_.next(now_);
    ASSERT_TRUE(attempt);
    if (!queue_.failed(*attempt, now_, Nanos(0))) break;
    EXPECT_FALSE(queue_.next(now_));
    now_ += Nanos(milliseconds(50)).count();
  }
  EXPECT_EQ(tries, 60 * 20);
}

TEST_F(Reconnecting, WaitsForASilentPeerAndForgetsOneThatIsGone) {
  queue_.add(hostile_, 0);
  queue_.add(honest_, 0);
  hostile_->silence = seconds(3);
  EXPECT_EQ(queue_.next(now_)->session, honest_);
  EXPECT_FALSE(queue_.empty());
  hostile_->lives = false;
  honest_.reset();
  EXPECT_FALSE(queue_.next(now_));
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace ferry::fabric
