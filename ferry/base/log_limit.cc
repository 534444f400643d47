#include "ferry/base/log_limit.h"

namespace ferry {

void LogLimit::end_interval_locked(std::int64_t now) {
  if (held_back_ != 0)
    logger().log(level_, "{}: {} more in {:.0f} s", what_, held_back_,
                 static_cast<double>(now - began_) / 1e9);
  began_ = now;
  logged_ = 0;
  held_back_ = 0;
}

void LogLimit::report(std::int64_t now) {
  LockGuard<Mutex> guard(lock_);
  if (held_back_ != 0 && now - began_ >= interval_.count()) end_interval_locked(now);
}

bool LogLimit::admit(std::int64_t now, spdlog::level::level_enum level) {
  LockGuard<Mutex> guard(lock_);
  if (began_ == 0 || now - began_ >= interval_.count()) end_interval_locked(now);
  level_ = level;
  if (logged_ < most_) {
    ++logged_;
    return true;
  }
  ++held_back_;
  return false;
}

std::uint64_t LogLimit::held_back() const {
  LockGuard<Mutex> guard(lock_);
  return held_back_;
}

}  // namespace ferry
