#include <gtest/gtest.h>

#include "ferry/fabric/verbs/credits_internal.h"

namespace ferry::fabric::verbs {
namespace {

TEST(VerbsCredits, AreSpentAndReturned) {
  Credits credits;
  EXPECT_FALSE(credits.has_left());
  credits.start(2);
  credits.spend();
  credits.spend();
  EXPECT_FALSE(credits.has_left());
  credits.add_returned(1);
  EXPECT_TRUE(credits.has_returned());
  EXPECT_FALSE(credits.has_left());
  credits.collect();
  EXPECT_TRUE(credits.has_left());
  EXPECT_FALSE(credits.has_returned());
}

TEST(VerbsCredits, AreDueWhenHalfAreOwed) {
  Credits credits;
  for (int i = 0; i < kLaneCredits / 2 - 1; ++i) EXPECT_FALSE(credits.owe());
  EXPECT_FALSE(credits.due());
  EXPECT_TRUE(credits.owe());
  EXPECT_TRUE(credits.due());
  EXPECT_EQ(credits.take_owed(), kLaneCredits / 2);
  EXPECT_FALSE(credits.due());
  EXPECT_EQ(credits.take_owed(), 0);
}

}  // namespace
}  // namespace ferry::fabric::verbs
