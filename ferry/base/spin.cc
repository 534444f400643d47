#include "ferry/base/spin.h"

#include <sched.h>

namespace ferry {

void pause_or_yield(int spins) {
  if (spins < waiting::kLockPauses) {
    cpu_relax();
  } else {
    sched_yield();
  }
}

bool SpinBudget::check_clock() {
  if (start_ == 0) {
    start_ = last_ = now_ns();
    gave_way_ = 0;
    return budget_ > 0;
  }
  if (polite_) sched_yield();
  auto now = now_ns();
  crowded_ = now - last_ > waiting::kOthersRan.count();
  if (crowded_) {
    start_ += now - last_;
    ++gave_way_;
  }
  last_ = now;
  return now - start_ < budget_ &&
         gave_way_ < (costly_ ? waiting::kMostYieldsCostly : waiting::kMostYields);
}

}  // namespace ferry
