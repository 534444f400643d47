#include <gtest/gtest.h>

#include "ferry/fabric/verbs/peer_grants_internal.h"

namespace ferry::fabric::verbs {
namespace {

RemoteRegion region(std::uint64_t key, std::uint32_t epoch) {
  return {key, 0x1000, 64, epoch, Rights::kRead};
}

TEST(VerbsPeerGrants, AsksOncePerKeyAndEpoch) {
  PeerGrants grants;
  auto first = grants.use(region(7, 1));
  EXPECT_TRUE(first.fresh);
  auto again = grants.use(region(7, 1));
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(again.grant, first.grant);
  EXPECT_EQ(first.grant->users.load(), 2u);
  EXPECT_TRUE(grants.use(region(7, 2)).fresh);
  EXPECT_TRUE(grants.use(region(8, 1)).fresh);
}

TEST(VerbsPeerGrants, AnIdleGrantLeavesAtOnce) {
  PeerGrants grants;
  EXPECT_FALSE(grants.drop_user(*grants.use(region(7, 1)).grant));
  EXPECT_TRUE(grants.leave(region(7, 1)));
  EXPECT_FALSE(grants.left(region(7, 1)));
  EXPECT_TRUE(grants.use(region(7, 1)).fresh);
  EXPECT_TRUE(grants.leave(region(99, 1)));
}

TEST(VerbsPeerGrants, AUsedGrantLeavesWithItsLastUserAndOnce) {
  PeerGrants grants;
  auto* grant = grants.use(region(7, 1)).grant;
  EXPECT_FALSE(grants.leave(region(7, 1)));
  EXPECT_TRUE(grant->leaving);
  EXPECT_EQ(grants.find(region(7, 1)), nullptr);
  EXPECT_FALSE(grants.left(region(7, 1)));
  EXPECT_TRUE(grants.drop_user(*grant));
  EXPECT_TRUE(grants.left(region(7, 1)));
  EXPECT_FALSE(grants.left(region(7, 1)));
}

}  // namespace
}  // namespace ferry::fabric::verbs
