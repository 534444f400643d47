#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ferry/base/thread_annotations.h"
#include "ferry/interop/grpc_endpoint/background_internal.h"
#include "ferry/interop/grpc_endpoint/link_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/interop/grpc_endpoint/plugin_device_internal.h"

namespace ferry::interop {

// The links of this process, and what is told of them and of those that are closed: traffic, and
// the report at the end. The last user of a link may be any thread, gRPC's under gRPC's locks too,
// and closing waits for the peer: so a link is closed by the background thread.
//
// Thread-safe. Between calls every link is in the table from open() until its traffic and its
// report have been taken over; only then is it destroyed.
class LinkTable {
 public:
  // `closed` is called by the background thread after a link was destroyed, whose memory others may
  // wait for.
  LinkTable(PluginDevice& device, Background& background, std::function<void()> closed)
      : device_(device), background_(background), closed_(std::move(closed)) {}

  // Both ends of a channel call it. Blocks.
  Result<std::shared_ptr<Link>> open(fabric::Channel channel, const LinkThresholds& set,
                                     Deadline deadline);
  // New values, just measured, for all links of a path (path_of()) of which nothing was known.
  void retune(const std::string& path, const mail::FoundTuning& found);

  // What has gone over all links so far.
  PluginTraffic traffic();
  // A connection that gRPC keeps as it is.
  void note_plain(bool client, const std::string& peer, const std::string& why);
  // A line for every connection there was.
  std::string report();

 private:
  // Keeps the link's report, and closes it, which may wait for its peer.
  void close(std::unique_ptr<Link> link);
  // Keeps a line for the statistics at the end, or counts it if there are too many.
  void keep(std::string line) FERRY_REQUIRES(lock_);

  PluginDevice& device_;
  Background& background_;
  const std::function<void()> closed_;

  Mutex lock_;
  std::set<Link*> links_ FERRY_GUARDED_BY(lock_);
  PluginTraffic past_ FERRY_GUARDED_BY(lock_);                // of links that are closed
  std::vector<std::string> reports_ FERRY_GUARDED_BY(lock_);  // of these, and of plain connections
  std::uint64_t unreported_ FERRY_GUARDED_BY(lock_) = 0;      // beyond what is kept
};

// Names the path that a channel takes: its provider, and the two hosts.
std::string path_of(const fabric::Channel& channel);

}  // namespace ferry::interop
