#include "bench/driver/variants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/driver/targets.h"

namespace ferry::bench {
namespace {

std::set<std::string> ids(const std::vector<Variant>& variants) {
  std::set<std::string> found;
  for (const auto& variant : variants) found.insert(variant.id);
  return found;
}

TEST(BenchVariants, IdsAreUnique) { EXPECT_EQ(ids(all_variants()).size(), all_variants().size()); }

TEST(BenchVariants, EveryTargetNamesVariantsThatExist) {
  const auto known = ids(all_variants());
  std::set<std::string> target_ids;
  for (const auto& target : transfer_targets()) {
    EXPECT_TRUE(target_ids.insert(target.id).second) << target.id;
    EXPECT_TRUE(known.count(target.numerator)) << target.id;
    EXPECT_FALSE(target.denominators.empty()) << target.id;
    for (const auto& id : target.denominators) EXPECT_TRUE(known.count(id)) << target.id << id;
    EXPECT_LT(target.min_bytes, target.max_bytes) << target.id;
  }
}

TEST(BenchVariants, EveryTargetOfMessagesNamesVariantsThatExist) {
  const auto known = ids(message_variants());
  EXPECT_EQ(known.size(), message_variants().size());
  std::set<std::string> target_ids;
  for (const auto& target : message_targets()) {
    EXPECT_TRUE(target_ids.insert(target.id).second) << target.id;
    EXPECT_TRUE(known.count(target.numerator)) << target.id;
    EXPECT_EQ(target.denominators.empty(), target.metric == Target::Metric::kUs) << target.id;
    for (const auto& id : target.denominators) EXPECT_TRUE(known.count(id)) << target.id << id;
  }
}

TEST(BenchVariants, SelectsByProviderAndByOpponent) {
  const auto chosen = ids(select_variants(
      all_variants(), {.providers = {"tcp"}, .against = {"socket"}, .spin = true, .sleep = true}));
  EXPECT_EQ(chosen,
            (std::set<std::string>{"ferry-tcp", "ferry-tcp-sleep", "tcp-spin", "tcp-block"}));
}

TEST(BenchVariants, SelectsByTheWayOfWaiting) {
  const Selection spin{.providers = {"tcp"}, .against = {"socket", "grpc"}};
  const auto spinning = ids(select_variants(all_variants(), spin));
  EXPECT_TRUE(spinning.count("tcp-spin"));
  EXPECT_FALSE(spinning.count("tcp-block"));
  // gRPC waits as it likes, so it is there in both.
  EXPECT_TRUE(spinning.count("grpc-slices"));
  auto sleep = spin;
  sleep.spin = false;
  sleep.sleep = true;
  const auto sleeping = ids(select_variants(all_variants(), sleep));
  EXPECT_FALSE(sleeping.count("tcp-spin"));
  EXPECT_TRUE(sleeping.count("ferry-tcp-sleep"));
  EXPECT_TRUE(sleeping.count("grpc-slices"));
}

TEST(BenchVariants, QuickLeavesSomeOut) {
  Selection wanted{.providers = {"shm", "tcp"}, .against = {"memcpy", "socket", "grpc", "ucx"}};
  const auto full = select_variants(all_variants(), wanted).size();
  wanted.quick = true;
  EXPECT_LT(select_variants(all_variants(), wanted).size(), full);
}

TEST(BenchVariants, EachStandsBesideAProviderOfOurs) {
  std::map<std::string, std::string> ways;
  for (const auto& variant : all_variants()) ways[variant.id] = way_of(variant);
  for (const auto& [id, way] : ways)
    EXPECT_TRUE(way == "shm" || way == "tcp" || way == "verbs") << id;
  EXPECT_EQ(ways["ucx-put"], "shm");
  EXPECT_EQ(ways["ucx-tag-tcp"], "tcp");
  EXPECT_EQ(ways["ib-write-bw"], "verbs");
}

}  // namespace
}  // namespace ferry::bench
