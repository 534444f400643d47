#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "ferry/base/clock.h"
#include "ferry/base/stall.h"

namespace ferry::trial {

// Stops the first thread of this process that comes to a point between a look at a grant and the
// copy that follows, until it is let go. One at a time.
class Stall {
 public:
  explicit Stall(StallPoint at) {
    point = at;
    step = kArmed;
    stall_hook.store(&Stall::come);
  }
  ~Stall() {
    let_go();
    stall_hook.store(nullptr);
    while (inside != 0) std::this_thread::yield();
  }
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;

  static bool reached() { return step == kStopped; }
  static bool await(Deadline deadline) {
    while (!reached() && !deadline.expired())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reached();
  }
  static void let_go() { step = kLetGo; }

 private:
  enum Step : int { kArmed, kStopped, kLetGo };
  static void come(StallPoint at) {
    ++inside;
    int armed = kArmed;
    if (at == point && step.compare_exchange_strong(armed, kStopped))
      while (step != kLetGo) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --inside;
  }
  static inline std::atomic<StallPoint> point{};
  static inline std::atomic<int> step{kLetGo};
  static inline std::atomic<int> inside{0};
};

}  // namespace ferry::trial
