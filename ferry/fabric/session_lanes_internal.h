#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/control_connection_internal.h"
#include "ferry/fabric/session_context_internal.h"

namespace ferry::fabric {

// The lanes to one peer, by number: opens them, takes over those that the peer opens, and connects
// broken ones anew. The connecting end asks over the control connection, waits for the answer and
// says that the lane is ready; the accepting end hands the lane out then. Thread-safe; *_on_loop
// methods belong to the control loop.
//
// Between calls: a lane that the peer has asked for waits in `accepted_` until the peer says that
// it is ready; from then on it is the lane of the channel with its number.
class SessionLanes {
 public:
  // Both outlive it.
  SessionLanes(const SessionContext& context, ControlConnection& connection)
      : context_(context), connection_(connection) {}

  // For the connector, and not on a loop: both block. `self` is the session that the lane is one
  // of. open() returns the channel that uses the lane already if that lane is up.
  Result<std::shared_ptr<ChannelCore>> open(std::uint32_t lane, Provider& provider,
                                            const std::string& why, Deadline deadline,
                                            std::shared_ptr<PeerSession> self,
                                            ChannelCore::Home home);
  // Gives the channel a new lane, unless its lane is up or the channel is gone. kDeadlineExceeded:
  // another lane is being opened, which this call does not wait for.
  Status reconnect(std::uint32_t lane, Deadline deadline, std::shared_ptr<PeerSession> self);
  std::uint32_t next(std::uint32_t count) { return next_.fetch_add(1) % count; }

  // For the acceptor: the peer asks for a lane, and is told what its end needs; then the peer says
  // that the lane is ready.
  Result<std::vector<std::byte>> accept_on_loop(std::span<const std::byte> request,
                                                std::shared_ptr<PeerSession> self);
  Status ready_on_loop(std::uint32_t lane, ChannelCore::Home home);

  // The channel of the lane, or null.
  std::shared_ptr<ChannelCore> channel(std::uint32_t lane);
  // Which of the channels posts to this lane now. The lane may be gone.
  std::optional<std::uint32_t> number_of(const Lane* lane);
  // The channel of the lane is gone: the peer is told, unless a newer one has taken the number
  // over. True if that was the last lane.
  bool drop(std::uint32_t lane);
  // After the end of the connection: closes all lanes.
  void close_all(const Error& cause);

 private:
  // Asks the peer for a lane, connects this end of it, and says that it is ready. Blocks; the
  // caller holds opening_.
  Result<std::shared_ptr<Lane>> connect(std::uint32_t lane, Provider& provider, Loop& loop,
                                        Deadline deadline, std::shared_ptr<PeerSession> self);
  // A copy of the table: a channel whose last user goes while it is looked at drops its lane, which
  // takes the lock.
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> channels();

  const SessionContext& context_;
  ControlConnection& connection_;
  std::atomic<std::uint32_t> next_{0};
  Mutex opening_;  // one lane is opened at a time; held while blocking
  Mutex lock_;
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> channels_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, std::pair<Provider*, std::shared_ptr<Lane>>> accepted_
      FERRY_GUARDED_BY(lock_);  // not yet said to be ready
};

}  // namespace ferry::fabric
