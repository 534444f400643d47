#include "ferry/cli/common/sent_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ferry::cli {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

train::TaskReport task_over(const fabric::RegistrationStats& stats) {
  train::TaskReport task;
  task.crossings.tensors = 50;
  task.crossings.registered = 40;
  task.crossings.transfer_ns = 90 * kMs;
  task.registrations = {stats};
  return task;
}

// 12 ms of registering, 2 of them within transfers, beside 90 ms of transfers: 12 / (90 + 10).
TEST(SentReport, WithHardwareTheTimeSpentRegisteringIsAPartOfThePipeline) {
  const auto task = task_over({"verbs", true, 7, 12 * kMs, 3, 2 * kMs, 5});
  const auto figures = sent_by({task, task});
  EXPECT_DOUBLE_EQ(figures.registered_share().value(), 0.8);
  EXPECT_DOUBLE_EQ(figures.registering_share().value(), 0.12);
  EXPECT_EQ(share_text(figures.registering_share()), "12.0 %");
  const auto json = registration_json(figures);
  EXPECT_EQ(json["registered"], 80);
  EXPECT_EQ(json["providers"][0]["registrations"], 14);
  EXPECT_EQ(json["providers"][0]["for_transfers"], 6);
  EXPECT_EQ(json["providers"][0]["reused"], 10);
}

// Where nothing is registered with hardware there is no such time, however long bookkeeping took.
TEST(SentReport, WithoutHardwareNoTimeIsGiven) {
  const auto figures = sent_by({task_over({"shm", false, 4, 5 * kMs, 0, 0, 0})});
  EXPECT_DOUBLE_EQ(figures.registered_share().value(), 0.8);
  EXPECT_FALSE(figures.registering_share());
  EXPECT_EQ(share_text(figures.registering_share()), "-");
  EXPECT_TRUE(registration_json(figures)["registering_share"].is_null());
  EXPECT_EQ(registration_notes({figures}).size(), 2U);
}

TEST(SentReport, OverGrpcThereIsNothingToSay) {
  train::TaskReport task;
  task.crossings.tensors = 50;
  const auto figures = sent_by({task});
  EXPECT_FALSE(figures.registered_share());
  EXPECT_TRUE(registration_json(figures).is_null());
  EXPECT_TRUE(registration_notes({figures}).empty());
}

}  // namespace
}  // namespace ferry::cli
