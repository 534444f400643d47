#pragma once

#include "ferry/fabric/channel_core_internal.h"

namespace ferry::fabric {

// Several operations with one completion. Lives on the poster's stack while it posts; the state
// they share lies in the parent operation, which ends when the last of them has and the poster is
// done.
class Batch {
 public:
  Batch(ChannelCore& core, Request& whole, std::size_t count);
  void post(ChannelCore& core, Request& child);
  // The one transfer for all. After this, only the children hold the parent.
  Transfer take();
  // Posted by the last child to end, if none failed, before the whole ends: a flag.
  void after(ChannelCore& core, const Flag& flag, Deadline deadline);

 private:
  struct State;
  static void child_ended(Operation* parent, const Status& status);
  Operation* parent_;
};

// Cuts a large copy into one piece per lane; a flag follows when all of them have landed.
Transfer post_striped(ChannelCore& core, std::span<const std::shared_ptr<ChannelCore>> others,
                      Request& request);

}  // namespace ferry::fabric
