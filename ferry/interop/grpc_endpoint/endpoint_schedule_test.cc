#include <gtest/gtest.h>

#include "ferry/interop/grpc_endpoint/endpoint_schedule_internal.h"

namespace ferry::interop {
namespace {

// An endpoint that is ready so many times, and counts how often it was served.
struct FakeEndpoint {
  int left = 0;
  bool timed = false;
  bool mapped = true;
  int served = 0;

  bool ready() const { return left > 0; }
  bool waits_for_time() const { return timed; }
  bool maps() const { return mapped; }
  void progress() {
    ++served;
    if (left > 0) --left;
  }
};

using Schedule = EndpointSchedule<FakeEndpoint>;

std::vector<std::shared_ptr<FakeEndpoint>> add_endpoints(Schedule& schedule, std::size_t count) {
  std::vector<std::shared_ptr<FakeEndpoint>> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(std::make_shared<FakeEndpoint>());
    schedule.add(made.back());
  }
  return made;
}

TEST(EndpointSchedule, ServesOnlyThoseThatAreReady) {
  Schedule schedule;
  const auto endpoints = add_endpoints(schedule, 3);
  EXPECT_FALSE(schedule.any_ready());
  endpoints[1]->left = 1;
  EXPECT_TRUE(schedule.any_ready());
  EXPECT_FALSE(schedule.progress());
  EXPECT_EQ(endpoints[0]->served, 0);
  EXPECT_EQ(endpoints[1]->served, 1);
  EXPECT_FALSE(schedule.any_ready());
}

TEST(EndpointSchedule, StopsAfterAFewAndGoesOnWithTheNext) {
  Schedule schedule;
  const auto endpoints = add_endpoints(schedule, Schedule::kMostAtOnce + 3);
  for (const auto& endpoint : endpoints) endpoint->left = 100;
  EXPECT_TRUE(schedule.progress());
  EXPECT_TRUE(schedule.progress());
  // Two rounds of 12 over 15 endpoints: nobody is served twice before all were served once.
  int most = 0;
  for (const auto& endpoint : endpoints) {
    EXPECT_GE(endpoint->served, 1);
    most = std::max(most, endpoint->served);
  }
  EXPECT_EQ(most, 2);
}

TEST(EndpointSchedule, LetsThoseLookThatWaitForTimeButDoesNotCallThemReady) {
  Schedule schedule;
  const auto endpoints = add_endpoints(schedule, Schedule::kMostAtOnce + 1);
  for (const auto& endpoint : endpoints) endpoint->timed = true;
  EXPECT_FALSE(schedule.any_ready());
  EXPECT_FALSE(schedule.progress());
  for (const auto& endpoint : endpoints) EXPECT_EQ(endpoint->served, 1);
}

TEST(EndpointSchedule, DoesNotServeWhoWasRemoved) {
  Schedule schedule;
  const auto endpoints = add_endpoints(schedule, 2);
  for (const auto& endpoint : endpoints) endpoint->left = 1;
  schedule.remove(endpoints[0].get());
  EXPECT_FALSE(schedule.progress());
  EXPECT_EQ(endpoints[0]->served, 0);
  EXPECT_EQ(endpoints[1]->served, 1);
  EXPECT_EQ(endpoints[0].use_count(), 1);
}

TEST(EndpointSchedule, NeedsProgressOfTheDeviceWhileAPeerIsNotMapped) {
  Schedule schedule;
  const auto far = std::make_shared<FakeEndpoint>();
  far->mapped = false;
  EXPECT_FALSE(schedule.needs_device_progress());
  schedule.add(far);
  EXPECT_TRUE(schedule.needs_device_progress());
  schedule.remove(far.get());
  EXPECT_FALSE(schedule.needs_device_progress());
}

}  // namespace
}  // namespace ferry::interop
