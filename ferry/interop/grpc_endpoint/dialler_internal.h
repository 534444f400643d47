#pragma once

#include <compare>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/call_internal.h"
#include "ferry/interop/grpc_endpoint/link_table_internal.h"
#include "ferry/interop/grpc_endpoint/path_tuner_internal.h"

namespace ferry::interop {

// A socket address, of any family.
struct SocketAddress {
  std::vector<std::byte> bytes;

  static Result<SocketAddress> of_peer(int socket);
  friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
};

// What a client's call to a server with the plug-in brings.
struct Dialled {
  Fd wire;  // the connection that the call was made on
  std::shared_ptr<Link> link;
};

// The client's side of a meeting: calls servers, and opens a link to those that answer.
//
// Thread-safe; blocks, so it is called on threads of its own (run_aside()). The device is open.
class Dialler {
 public:
  Dialler(PluginDevice& device, LinkTable& links, PathTuner& tuner)
      : device_(device), links_(links), tuner_(tuner) {}

  // `answered` is the limit for the answer; the link has one of its own. kUnavailable: no plug-in
  // is there, or not for us.
  Result<Dialled> dial(const SocketAddress& server, const LinkThresholds& set, Deadline answered);

 private:
  // A lane to the server's device; the client says the token on it first.
  Result<fabric::Channel> open_lane(const std::string& endpoint, std::uint32_t lane,
                                    const CallToken& token, Deadline deadline);
  // Begins a measurement of the link's path, once in a process for each path: a process that fails
  // leaves it to the next one.
  void measure_once(const std::string& endpoint, const Link& link) FERRY_REQUIRES(lock_);

  PluginDevice& device_;
  LinkTable& links_;
  PathTuner& tuner_;
  // Held while a link is opened: one at a time, because the first channel to a device makes the
  // session that all others to it use.
  Mutex lock_;
  std::map<std::string, std::uint32_t> lanes_ FERRY_GUARDED_BY(lock_);  // the next, by device
  std::set<std::string> measured_ FERRY_GUARDED_BY(lock_);              // path_of()
};

}  // namespace ferry::interop
