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
  constexpr std::int64_t kOthersRan = 20'000;  // 64 pauses and a yield take a few microseconds
  constexpr unsigned kMostTurns = 200;         // of others, before it is plain that this takes long
  constexpr unsigned kMostCostly = 2;
  if (start_ == 0) {
    start_ = last_ = now_ns();
    gave_way_ = 0;
    return budget_ > 0;
  }
  if (polite_) sched_yield();
  auto now = now_ns();
  crowded_ = now - last_ > kOthersRan;
  if (crowded_) {
    start_ += now - last_;
    ++gave_way_;
  }
  last_ = now;
  return now - start_ < budget_ && gave_way_ < (costly_ ? kMostCostly : kMostTurns);
}

}  // namespace ferry
