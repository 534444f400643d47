#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/ps/server/shard_core_internal.h"

namespace ferry::ps {

// The thread of a shard. It serves workers, and runs commands of other threads between two entries.
// Thread-safe.
class Shard {
 public:
  using Command = std::function<void(ShardCore&)>;

  // As ShardCore's constructor. The device outlives it.
  static Result<std::unique_ptr<Shard>> open(fabric::Device& device, const JobOptions& job,
                                             bool alone, bool newcomer);
  ~Shard();

  // Ends its thread; what it owns stays until destruction.
  void stop();
  // The job continues without this server: no entry is taken any more.
  void retire() { retired_ = true; }
  // Runs the command on the shard's thread, and waits for it.
  void run(const Command& command);

 private:
  Shard(fabric::Device& device, const JobOptions& job, WorkerConnections workers, bool alone,
        bool newcomer)
      : device_(device), core_(job, std::move(workers), alone, newcomer) {}
  // The thread's loop, until stop().
  void work();
  // Runs the commands that wait, and tells those who gave them.
  void run_commands();
  // Whether the thread has something to do, or is to end.
  bool has_work() const;

  fabric::Device& device_;
  ShardCore core_;  // of the thread alone
  Mutex lock_;
  std::condition_variable_any ran_;
  std::deque<const Command*> commands_ FERRY_GUARDED_BY(lock_);
  std::uint64_t commands_run_ FERRY_GUARDED_BY(lock_) = 0;
  std::uint64_t commands_given_ FERRY_GUARDED_BY(lock_) = 0;
  std::atomic<bool> commanded_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> retired_{false};
  std::thread thread_;
};

}  // namespace ferry::ps
