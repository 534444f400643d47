#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/call_internal.h"
#include "ferry/interop/grpc_endpoint/link_table_internal.h"
#include "ferry/interop/grpc_endpoint/path_tuner_internal.h"

namespace ferry::interop {

// The server's side of a meeting: knows the calls that were answered, accepts the channels of their
// clients on a thread of its own, and opens a link for each on another.
//
// Thread-safe. expect() and forget() do not block and are called by handshakes on gRPC's threads.
// The device is open. A call is expected until its channel has come or it is forgotten.
class LinkAcceptor {
 public:
  LinkAcceptor(PluginDevice& device, LinkTable& links, PathTuner& tuner)
      : device_(device), links_(links), tuner_(tuner) {}

  // Called once, on a thread of its own: with null if the link was not opened.
  using Arrived = std::function<void(std::shared_ptr<Link>)>;
  // Returns what the client is to be told. `arrived` is not called after forget(), but may be under
  // way then.
  std::vector<std::byte> expect(const CallToken& token, const LinkThresholds& set, Arrived arrived);
  void forget(const CallToken& token);

 private:
  struct Expected {
    LinkThresholds set;
    Arrived arrived;
  };
  // The loop of the accepting thread, which serves each channel on a thread of its own.
  void accept_channels();
  // Reads from the channel which call it belongs to, and hands its link to whoever expects that.
  void serve(fabric::Channel channel);

  PluginDevice& device_;
  LinkTable& links_;
  PathTuner& tuner_;
  Mutex lock_;
  bool accepting_ FERRY_GUARDED_BY(lock_) = false;  // the thread has begun; it never ends
  std::map<CallToken, Expected> expected_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::interop
