#pragma once

#include <condition_variable>
#include <functional>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/waker_internal.h"

namespace ferry::interop {

// Runs a task on a thread of its own, which may block for as long as it likes: dialling, accepting,
// measuring.
void run_aside(std::function<void()> task);

// One thread for what threads of gRPC's must not be kept by, one after the other: it closes links,
// which waits for their peers, and wakes gRPC's threads now and then while an endpoint waits for
// time to pass. The thread begins with the first call and lives until the process ends.
//
// Thread-safe. Tasks run without its lock.
class Background {
 public:
  explicit Background(Waker& waker) : waker_(waker) {}

  void run_later(std::function<void()> task);
  // Wakes gRPC's threads every 20 ms for so long, and a little longer. A later call replaces an
  // earlier one.
  void wake_for(Nanos span);

 private:
  // Starts the thread if there is none yet, and tells it that there is something to do.
  void begin() FERRY_REQUIRES(lock_);
  // The thread's loop.
  void run();

  Waker& waker_;
  Mutex lock_;
  std::condition_variable_any changed_;
  std::vector<std::function<void()>> tasks_ FERRY_GUARDED_BY(lock_);
  std::int64_t wakes_until_ FERRY_GUARDED_BY(lock_) = 0;
  bool begun_ FERRY_GUARDED_BY(lock_) = false;
};

}  // namespace ferry::interop
