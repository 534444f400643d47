#include "ferry/base/spin.h"

#include <sched.h>

namespace ferry {

void SpinLock::wait_a_little(int spins) {
  if (spins < 200) {
    cpu_relax();
  } else {
    sched_yield();
  }
}

bool SpinBudget::check_clock() {
  constexpr std::int64_t kDescheduled = 200'000;  // 64 pauses take a few microseconds at most
  auto now = now_ns();
  if (start_ == 0) {
    start_ = last_ = now;
    return budget_ > 0;
  }
  descheduled_ = now - last_ > kDescheduled;
  last_ = now;
  return !descheduled_ && now - start_ < budget_;
}

}  // namespace ferry
