#include "ferry/train/forecast.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ferry/fabric/device.h"

namespace ferry::train {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

using Path = std::pair<Transport, std::string>;

const std::vector<Path>& paths() {
  static const std::vector<Path> all = {
      {Transport::kFerry, "shm"},        {Transport::kFerry, "auto"},
      {Transport::kFerry, "tcp"},        {Transport::kFerry, "verbs"},
      {Transport::kFerryCopy, "shm"},    {Transport::kFerryCopy, "tcp"},
      {Transport::kFerryPrivate, "shm"}, {Transport::kFerryPrivate, "tcp"},
      {Transport::kGrpc, "auto"},        {Transport::kGrpcFerry, "shm"},
      {Transport::kGrpcFerry, "tcp"}};
  return all;
}

bool has_verbs() {
  fabric::Options options;
  options.provider = "verbs";
  return fabric::Device::open(options).has_value();
}

JobOptions small_job(const std::string& model) {
  JobOptions options;
  options.model = model;
  options.batch = 2;
  options.workers = 2;
  options.servers = 1;
  options.steps = 3;
  options.threads = 1;
  options.by_crossing = true;
  options.take_variables = false;
  const auto made = models::make_model(model, {.batch = options.batch});
  options.emulate =
      made && made->feeds == models::Feeds::kSynthetic && made->facts.can_be_emulated();
  return options;
}

// A model that another test of this program has registered is left out.
bool has_data(const JobOptions& options) {
  if (options.emulate) return true;
  const auto made = models::make_model(options.model, {.batch = options.batch});
  if (!made || made->feeds == models::Feeds::kOwn) return false;
  return made->feeds == models::Feeds::kText
             ? std::filesystem::exists("/usr/share/common-licenses")
             : std::filesystem::exists("/usr/share/datasets/fashion-mnist");
}

// What each crossing did in the steps after the first, by the ends of all tasks together.
std::map<std::uint32_t, runtime::CrossingStats> counted(const JobReport& report) {
  std::map<std::uint32_t, runtime::CrossingStats> all;
  for (const auto& task : report.tasks)
    for (const auto& [crossing, stats] : task.steady) all[crossing] += stats;
  return all;
}

void expect_forecast(const JobOptions& options) {
  SCOPED_TRACE(
      fmt::format("{}, {} over {}", options.model, name_of(options.transport), options.provider));
  const auto plan = plan_job(options);
  ASSERT_TRUE(plan) << plan.error().to_string();
  const auto expected = forecast(*plan, options);
  const auto report = run_job(options, {}, {});
  ASSERT_TRUE(report) << report.error().to_string();
  auto found = counted(*report);
  const auto steps = options.steps - 1;
  for (const auto& crossing : plan->partition.crossings) {
    const auto& step = expected[crossing.id].step;
    const auto& stats = found[crossing.id];
    EXPECT_EQ(stats.tensors, step.tensors * steps) << crossing.name;
    EXPECT_EQ(stats.copies, step.copies * steps) << crossing.name;
    EXPECT_EQ(stats.in_place, step.in_place * steps) << crossing.name;
    if (crossing.protocol != graph::TransferProtocol::kDynamic) {
      EXPECT_EQ(stats.bytes, step.bytes * steps) << crossing.name;
    }
  }
}

class Forecasts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "runs dozens of jobs; the other stages do it";
  }
};

TEST_F(Forecasts, AreWhatJobsDoOverEveryTransportAndProvider) {
  const bool verbs = has_verbs();
  for (const auto* model : {"mlp", "lstm-text"})
    for (const auto& [transport, provider] : paths()) {
      if (provider == "verbs" && !verbs) continue;
      auto options = small_job(model);
      if (!has_data(options)) continue;
      options.transport = transport;
      options.provider = provider;
      expect_forecast(options);
    }
}

// The large ones have hundreds of megabytes of variables: one worker and one step after the first.
TEST_F(Forecasts, AreWhatJobsDoForEveryModel) {
  for (const auto& model : models::model_names()) {
    auto options = small_job(model);
    if (!has_data(options)) continue;
    options.workers = 1;
    options.steps = 2;
    expect_forecast(options);
  }
}

// A NIC maps nobody's memory, and neither does TCP: nothing is produced at the receiver.
TEST(ForecastsOfPlans, ProduceNothingInAReceiverThatIsNotMapped) {
  for (const auto* provider : {"verbs", "tcp"}) {
    for (const auto& model : models::model_names()) {
      auto options = small_job(model);
      options.provider = provider;
      const auto plan = plan_job(options);
      ASSERT_TRUE(plan) << plan.error().to_string();
      for (const auto& one : forecast(*plan, options)) {
        EXPECT_EQ(one.step.in_place, 0U) << model;
        EXPECT_EQ(one.step.tensors, 1U) << model;
        EXPECT_EQ(one.how.find("the receiver's slot"), std::string_view::npos) << model;
      }
    }
  }
}

// The worker's own input goes to a server that looks it up: no kernel could produce it in place.
TEST(ForecastsOfPlans, CountTheCopyOfATensorThatIsFed) {
  auto options = small_job("lstm-text");
  const auto plan = plan_job(options);
  ASSERT_TRUE(plan) << plan.error().to_string();
  std::uint64_t copies = 0;
  for (const auto& one : forecast(*plan, options)) copies += one.step.copies;
  EXPECT_EQ(copies, options.workers);
}

}  // namespace
}  // namespace ferry::train
