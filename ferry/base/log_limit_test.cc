#include "ferry/base/log_limit.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

namespace ferry {
namespace {

// What the library logs while it lives.
class LogCapture {
 public:
  LogCapture() : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)) {
    logger().sinks().swap(before_);
    logger().sinks().push_back(sink_);
    level_ = logger().level();
    logger().set_level(spdlog::level::warn);
  }
  ~LogCapture() {
    logger().sinks().swap(before_);
    logger().set_level(level_);
  }
  std::size_t lines() const {
    auto all = text_.str();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::sinks::sink> sink_;
  std::vector<spdlog::sink_ptr> before_;
  spdlog::level::level_enum level_;
};

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(LogLimit, LogsTheFirstFewAndCountsTheRest) {
  LogCapture log;
  LogLimit limit("lines of a flood", 3, std::chrono::hours(1));
  for (int i = 0; i < 1000; ++i) limit.warn("line {}", i);
  EXPECT_EQ(log.lines(), 3U) << log.text();
  EXPECT_EQ(limit.held_back(), 997U);
}

TEST(LogLimit, SaysHowManyWereHeldBackOnceTheIntervalIsOver) {
  LogCapture log;
  LogLimit limit("lines of a flood", 2, std::chrono::seconds(10));
  std::int64_t now = kSecond;
  for (int i = 0; i < 7; ++i) limit.admit(now, spdlog::level::warn);
  limit.report(now + 9 * kSecond);
  EXPECT_EQ(log.lines(), 0U) << log.text();
  limit.report(now + 10 * kSecond);
  EXPECT_NE(log.text().find("lines of a flood: 5 more in 10 s"), std::string::npos) << log.text();
  limit.report(now + 30 * kSecond);
  EXPECT_EQ(log.lines(), 1U) << "nothing was held back since";
  EXPECT_TRUE(limit.admit(now + 40 * kSecond, spdlog::level::warn));
}

TEST(LogLimit, CountsNothingThatTheLevelHidesAnyway) {
  LogCapture log;
  LogLimit limit("lines", 1, std::chrono::hours(1));
  for (int i = 0; i < 10; ++i) limit.info("hidden");
  EXPECT_EQ(limit.held_back(), 0U);
  limit.warn("shown");
  EXPECT_EQ(log.lines(), 1U);
}

}  // namespace
}  // namespace ferry
