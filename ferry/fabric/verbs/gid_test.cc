#include <gtest/gtest.h>

#include "ferry/fabric/verbs/gid_internal.h"

namespace ferry::fabric::verbs {
namespace {

constexpr GidBytes kLinkLocal{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x77, 0, 1};
constexpr GidBytes kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
constexpr GidBytes kGlobal{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
constexpr GidBytes kIpv4Local{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 0, 1};

TEST(VerbsGid, RoutableVersion2ComesFirst) {
  GidEntry table[] = {{0, GidType::kRoce1, kLinkLocal},
                      {1, GidType::kRoce2, kLinkLocal},
                      {2, GidType::kRoce1, kIpv4},
                      {3, GidType::kRoce2, kGlobal},
                      {4, GidType::kRoce2, kIpv4}};
  EXPECT_EQ(choose_gid(table, -1)->index, 4);
  EXPECT_EQ(choose_gid(std::span(table).first(4), -1)->index, 3);
  EXPECT_EQ(choose_gid(std::span(table).first(3), -1)->index, 1);
  EXPECT_EQ(choose_gid(std::span(table).first(1), -1)->index, 0);
}

TEST(VerbsGid, AutoConfiguredIpv4IsLinkLocal) {
  GidEntry table[] = {{0, GidType::kRoce2, kIpv4Local}, {1, GidType::kRoce2, kGlobal}};
  EXPECT_EQ(choose_gid(table, -1)->index, 1);
}

TEST(VerbsGid, InfiniBandTakesTheFirst) {
  GidEntry table[] = {{1, GidType::kInfiniBand, kGlobal}, {0, GidType::kInfiniBand, kLinkLocal}};
  EXPECT_EQ(choose_gid(table, -1)->index, 0);
}

TEST(VerbsGid, TheOneWantedOrNothing) {
  GidEntry table[] = {{0, GidType::kRoce1, kLinkLocal}, {3, GidType::kRoce2, kIpv4}};
  EXPECT_EQ(choose_gid(table, 0)->index, 0);
  EXPECT_FALSE(choose_gid(table, 1));
  EXPECT_FALSE(choose_gid({}, -1));
}

TEST(VerbsGid, PrintsAsAnAddress) {
  EXPECT_EQ(to_string(kIpv4), "::ffff:10.77.0.1");
  EXPECT_EQ(to_string(kLinkLocal), "fe80::5054:ff:fe77:1");
}

}  // namespace
}  // namespace ferry::fabric::verbs
