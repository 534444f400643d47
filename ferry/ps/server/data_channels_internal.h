#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/wait_spin.h"

namespace ferry::ps {

// The data channels that workers have opened to a server, accepted by a thread of its own.
// Thread-safe.
class DataChannels {
 public:
  // The device outlives it.
  explicit DataChannels(fabric::Device& device);
  ~DataChannels();

  // The channel of that device; waits for it. kUnavailable: it has broken. kFailedPrecondition:
  // none has come by the deadline.
  Result<std::shared_ptr<fabric::Channel>> find(const fabric::DeviceId& device, Deadline deadline);
  mail::SpinInUse spin();
  // Ends all transfers of them.
  void close();

 private:
  // The work of the thread: takes channels in until stop_, and forgets those that have ended and
  // that nobody else knows.
  void accept();

  fabric::Device& device_;
  Mutex lock_;
  std::condition_variable_any came_;
  std::vector<std::shared_ptr<fabric::Channel>> channels_ FERRY_GUARDED_BY(lock_);
  mail::WaitSpin spin_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> stop_{false};
  std::thread acceptor_;
};

}  // namespace ferry::ps
