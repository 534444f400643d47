#include <gtest/gtest.h>

#include "ferry/fabric/admission_internal.h"

namespace ferry::fabric {
namespace {

// At 200 ms each, strangers in 128 places (1024 descriptors) took 6 s to pass from a full backlog.
TEST(TimeToProve, ShrinksWhileStrangersProveNothing) {
  TimeToProve time;
  EXPECT_EQ(time.ns(), TimeToProve::kMostNs);
  for (int i = 0; i < 128; ++i) time.turned_away();
  EXPECT_EQ(time.ns(), TimeToProve::kLeastNs);
}

TEST(TimeToProve, GrowsWhenMembersAreAmongThem) {
  TimeToProve time;
  for (int i = 0; i < 1000; ++i) time.turned_away();
  for (int i = 0; i < 8; ++i) time.proved();
  EXPECT_EQ(time.ns(), TimeToProve::kMostNs);
  // A crowd of slow members, of whom many are turned away and some prove themselves.
  for (int i = 0; i < 1000; ++i) {
    time.turned_away();
    if (i % 8 == 0) time.proved();
  }
  EXPECT_GT(time.ns(), TimeToProve::kMostNs / 2);
}

}  // namespace
}  // namespace ferry::fabric
