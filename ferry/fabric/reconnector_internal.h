#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <thread>

#include "ferry/base/error.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/reconnect_queue_internal.h"

namespace ferry::fabric {

class Session;

// Connects broken lanes of a device anew, on a thread of its own since that blocks; the thread
// begins with the first lane. A lane that cannot be connected ends its session. Thread-safe.
class Reconnector {
 public:
  explicit Reconnector(const Options& options);
  // The thread is joined.
  ~Reconnector();

  // The lane is tried soon. Any thread, also one that holds a loop's token.
  void add(const std::shared_ptr<Session>& session, std::uint32_t lane);
  bool on_own_thread() const { return std::this_thread::get_id() == id_.load(); }
  // Returns when no session is touched any more. Idempotent; not from the own thread.
  void stop();

 private:
  using Queue = ReconnectQueue<Session>;
  std::optional<Queue::Try> next();  // waits for it; nothing: stop() was called
  void work();
  void finish(const Queue::Try& attempt, const Status& status, std::int64_t began);

  std::atomic<std::thread::id> id_{};
  Mutex lock_;
  std::condition_variable_any wake_;
  Queue queue_ FERRY_GUARDED_BY(lock_);
  bool stop_ FERRY_GUARDED_BY(lock_) = false;
  std::thread thread_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
