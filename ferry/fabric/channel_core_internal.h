#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferry/fabric/control_connection_internal.h"
#include "ferry/fabric/operation_internal.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

// What the channels of a device share; a share in it is one in the device.
struct ChannelShared {
  explicit ChannelShared(const Options& options)
      : stripe_bytes(options.stripe_bytes), operations(options.operation_deadline) {}

  const std::size_t stripe_bytes;
  OperationPool operations;
  std::atomic<std::uint64_t> open{0};
};

// What channels of one lane share. Posts go to the current lane; when that breaks while the peer
// lives, its session puts a new one in its place. Closed when the last channel is.
class ChannelCore {
 public:
  // Where a channel belongs; it keeps its device and its session.
  struct Home {
    std::shared_ptr<ChannelShared> shared;  // null: the device is about to go
    std::shared_ptr<ControlConnection> connection;
    std::function<void()>
        closed;  // called once, when the lane is closed because no channel is left
  };
  ChannelCore(Home home, std::uint32_t number, Provider& provider, std::string why,
              std::shared_ptr<Lane> lane);
  ~ChannelCore();

  Lane& lane() const { return *current_.load(std::memory_order_acquire); }
  void replace(std::shared_ptr<Lane> lane);
  // Closes the lane; channels stay and fail with the cause.
  void fail(const Error& cause);
  // True once it will not come back: closed by the peer, or the session ended.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  Transfer post(Request& request);

  ChannelShared& shared() const { return *home_.shared; }
  // To the peer.
  ControlConnection& connection() const { return *home_.connection; }
  std::uint32_t number() const { return number_; }
  Provider& provider() const { return provider_; }
  const std::string& why() const { return why_; }

 private:
  const Home home_;
  const std::uint32_t number_;
  Provider& provider_;
  const std::string why_;
  std::atomic<Lane*> current_;
  std::atomic<bool> failed_{false};
  Mutex lock_;
  // Old lanes stay: a post that has just read the pointer may still be in one.
  std::vector<std::shared_ptr<Lane>> lanes_ FERRY_GUARDED_BY(lock_);
};

// Waits until the local word is at least `value`, and makes progress on the loop meanwhile. Gives
// up when the channel's peer is lost, if there is a channel.
Status wait_flag(Loop& loop, const std::byte* word, std::uint64_t value, Deadline deadline,
                 WaitMode mode, const ChannelCore* channel);

}  // namespace ferry::fabric
