#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "ferry/base/clock.h"
#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"

namespace ferry {

// For lines that a peer or a stranger can cause as often as they like: the first few of an interval
// are logged, the others are counted, and the count is logged once the interval is over.
// Thread-safe.
class LogLimit {
 public:
  // `what` names the lines where their count is logged; it is kept, so give a literal.
  explicit LogLimit(std::string_view what, unsigned most = 5,
                    Nanos interval = std::chrono::seconds(10))
      : what_(what), most_(most), interval_(interval) {}

  template <class... Args>
  void warn(spdlog::format_string_t<Args...> text, Args&&... args) {
    log(spdlog::level::warn, text, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(spdlog::format_string_t<Args...> text, Args&&... args) {
    log(spdlog::level::info, text, std::forward<Args>(args)...);
  }

  // Logs the count of an interval that is over, for those who look in now and then. A line that
  // comes after the interval does it, too.
  void report(std::int64_t now);

  // What log() asks: whether a line may be logged at this time.
  bool admit(std::int64_t now, spdlog::level::level_enum level);
  std::uint64_t held_back() const;

 private:
  template <class... Args>
  void log(spdlog::level::level_enum level, spdlog::format_string_t<Args...> text, Args&&... args) {
    if (!logger().should_log(level) || !admit(now_ns(), level)) return;
    logger().log(level, text, std::forward<Args>(args)...);
  }
  void end_interval_locked(std::int64_t now) FERRY_REQUIRES(lock_);

  const std::string_view what_;
  const unsigned most_;
  const Nanos interval_;
  mutable Mutex lock_;
  std::int64_t began_ FERRY_GUARDED_BY(lock_) = 0;
  unsigned logged_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t held_back_ FERRY_GUARDED_BY(lock_) = 0;
  spdlog::level::level_enum level_ FERRY_GUARDED_BY(lock_) = spdlog::level::warn;
};

}  // namespace ferry
