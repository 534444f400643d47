#include <gtest/gtest.h>

#include "ferry/fabric/mend_queue_internal.h"

namespace ferry::fabric {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct MendedPeer {
  bool lives = true;
  Nanos silence{0};

  bool alive() const { return lives; }
  Nanos silent_for() const { return silence; }
};

class Mending : public ::testing::Test {
 protected:
  // Lets the turn take all of its time, in vain. Whether the peer may go on.
  bool fail(const MendQueue<MendedPeer>::Turn& turn) {
    now_ += turn.limit.count();
    return queue_.failed(turn, now_, turn.limit);
  }
  std::shared_ptr<MendedPeer> hostile_ = std::make_shared<MendedPeer>();
  std::shared_ptr<MendedPeer> honest_ = std::make_shared<MendedPeer>();
  std::int64_t now_ = 1;
  MendQueue<MendedPeer> queue_{{.first_try = seconds(1),
                                .longest_try = seconds(10),
                                .pause = milliseconds(50),
                                .total = seconds(60)}};
};

// Each frame by which a peer asks used to take memory, and a turn.
TEST_F(Mending, OfOneLaneIsAskedForOnceHoweverOftenThePeerSaysSo) {
  for (int frame = 0; frame < 10'000; ++frame)
    queue_.add(hostile_, static_cast<std::uint32_t>(frame % 2));
  EXPECT_EQ(queue_.lanes(), 2U);
  for (int frame = 0; frame < 10'000; ++frame) {
    auto turn = queue_.next(now_);
    ASSERT_TRUE(turn);
    queue_.add(hostile_, turn->lane);  // it breaks again meanwhile
    queue_.mended(*turn);
  }
  EXPECT_EQ(queue_.lanes(), 2U);
}

TEST_F(Mending, OfAPeerThatDoesNotAnswerLetsOthersHaveTheirTurn) {
  for (std::uint32_t lane = 0; lane < 64; ++lane) queue_.add(hostile_, lane);
  queue_.add(honest_, 7);
  auto turn = queue_.next(now_);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->session, hostile_);
  EXPECT_EQ(turn->limit, seconds(1));
  EXPECT_TRUE(fail(*turn));
  turn = queue_.next(now_);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->session, honest_);
  EXPECT_EQ(turn->lane, 7U);
  queue_.mended(*turn);
  EXPECT_FALSE(queue_.next(now_)) << "the other one waits for a moment after its try";
  now_ += Nanos(milliseconds(50)).count();
  turn = queue_.next(now_);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->session, hostile_);
  EXPECT_EQ(turn->limit, seconds(2));
}

// It used to be tried for ever.
TEST_F(Mending, EndsWhenTheTimeOfAllTriesIsSpent) {
  for (std::uint32_t lane = 0; lane < 64; ++lane) queue_.add(hostile_, lane);
  Nanos spent{0};
  for (;;) {
    now_ += Nanos(milliseconds(50)).count();
    auto turn = queue_.next(now_);
    ASSERT_TRUE(turn);
    EXPECT_LE(turn->limit, seconds(10));
    spent += turn->limit;
    ASSERT_LT(spent, seconds(80));
    if (fail(*turn)) continue;
    queue_.drop(*turn);
    break;
  }
  EXPECT_GE(spent, seconds(60));
  EXPECT_TRUE(queue_.empty());
}

// The error of a peer that answers at once that it is late costs time, too.
TEST_F(Mending, EndsAlsoWhenTriesTakeNoTime) {
  queue_.add(hostile_, 0);
  int tries = 1;
  for (; tries < 10'000; ++tries) {
    auto turn = queue_.next(now_);
    ASSERT_TRUE(turn);
    if (!queue_.failed(*turn, now_, Nanos(0))) break;
    EXPECT_FALSE(queue_.next(now_));
    now_ += Nanos(milliseconds(50)).count();
  }
  EXPECT_EQ(tries, 60 * 20);
}

TEST_F(Mending, WaitsForASilentPeerAndForgetsOneThatIsGone) {
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
