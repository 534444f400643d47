#include <gtest/gtest.h>

#include "ferry/interop/pslite/barrier_counter_internal.h"

namespace ps {
namespace {

constexpr int kGroup = 7;

std::vector<std::uint32_t> requests_of(const std::vector<BarrierCounter::Waiting>& all) {
  std::vector<std::uint32_t> requests;
  for (const auto& one : all) requests.push_back(one.request);
  return requests;
}

TEST(BarrierCounterTest, ReturnsWhenAllHaveCome) {
  BarrierCounter counter;
  const auto members = [](int, int) { return std::map<int, int>{{8, 1}, {9, 1}}; };
  counter.arrive(0, kGroup, {9, 1});
  EXPECT_TRUE(counter.take_complete(members).empty());
  counter.arrive(0, kGroup, {8, 5});
  EXPECT_EQ(requests_of(counter.take_complete(members)), (std::vector<std::uint32_t>{1, 5}));
  EXPECT_TRUE(counter.take_complete(members).empty());
}

TEST(BarrierCounterTest, WhoComesEarlyWaitsForTheNextOne) {
  BarrierCounter counter;
  const auto members = [](int, int) { return std::map<int, int>{{8, 1}, {9, 1}}; };
  counter.arrive(0, kGroup, {9, 1});
  counter.arrive(0, kGroup, {9, 2});
  counter.arrive(0, kGroup, {8, 1});
  EXPECT_EQ(requests_of(counter.take_complete(members)), (std::vector<std::uint32_t>{1, 1}));
  counter.arrive(0, kGroup, {8, 2});
  EXPECT_EQ(requests_of(counter.take_complete(members)), (std::vector<std::uint32_t>{2, 2}));
}

TEST(BarrierCounterTest, EveryCustomerOfAProcessHasToCome) {
  BarrierCounter counter;
  const auto members = [](int, int) { return std::map<int, int>{{9, 2}}; };
  counter.arrive(0, kGroup, {9, 1});
  EXPECT_TRUE(counter.take_complete(members).empty());
  counter.arrive(0, kGroup, {9, 2});
  EXPECT_EQ(counter.take_complete(members).size(), 2U);
}

TEST(BarrierCounterTest, BarriersOfGroupsAndCustomersAreApart) {
  BarrierCounter counter;
  const auto members = [](int customer_id, int group) {
    return customer_id == 0 && group == 4 ? std::map<int, int>{{9, 1}}
                                          : std::map<int, int>{{9, 1}, {11, 1}};
  };
  counter.arrive(0, 4, {9, 1});
  counter.arrive(1, 4, {9, 2});
  counter.arrive(0, kGroup, {9, 3});
  EXPECT_EQ(requests_of(counter.take_complete(members)), (std::vector<std::uint32_t>{1}));
}

TEST(BarrierCounterTest, TheDeadAreNotWaitedForAndDoNotReturn) {
  BarrierCounter counter;
  counter.arrive(0, kGroup, {9, 1});
  counter.arrive(0, kGroup, {11, 1});
  counter.forget(11);
  const auto members = [](int, int) { return std::map<int, int>{{8, 1}, {9, 1}}; };
  EXPECT_TRUE(counter.take_complete(members).empty());
  counter.arrive(0, kGroup, {8, 7});
  EXPECT_EQ(requests_of(counter.take_complete(members)), (std::vector<std::uint32_t>{1, 7}));
}

}  // namespace
}  // namespace ps
