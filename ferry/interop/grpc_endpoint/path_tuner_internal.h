#pragma once

#include <atomic>

#include "ferry/fabric/channel.h"
#include "ferry/interop/grpc_endpoint/link_table_internal.h"
#include "ferry/interop/grpc_endpoint/plugin_device_internal.h"

namespace ferry::interop {

// Measuring takes about a third of a second, and longer on a busy host. Nobody waits for it. To be
// scaled by the user's patience.
inline constexpr auto kMeasureLimit = std::chrono::seconds(30);

// Measures a path of which nothing is known when it is first used: beside the connection, which
// goes on with the defaults meanwhile, on a channel and on threads of its own at both ends.
//
// Thread-safe.
class PathTuner {
 public:
  PathTuner(PluginDevice& device, LinkTable& links) : device_(device), links_(links) {}

  // Whether a measurement of the link's path is of use: nothing is known of it, and what is
  // measured would be kept.
  bool is_wanted(const Link& link) const;
  // Either side; blocks. One path at a time: others are left to the next process. A failure costs
  // nothing but this channel: the connections have their own.
  void measure(fabric::Channel channel);

 private:
  PluginDevice& device_;
  LinkTable& links_;
  std::atomic<bool> measuring_{false};
};

}  // namespace ferry::interop
