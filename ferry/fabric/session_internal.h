#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/control_connection_internal.h"
#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/session_context_internal.h"
#include "ferry/fabric/session_lanes_internal.h"

namespace ferry::fabric {

// One authenticated peer: the control connection to it, and its lanes. Answers what the peer asks:
// for lanes, for names in the address book, and what providers ask each other. Thread-safe;
// *_on_loop methods belong to the control loop. Ends once: then its lanes are closed and every call
// fails with the cause.
class Session final : public PeerSession, public std::enable_shared_from_this<Session> {
 public:
  // `connector`: this device has dialled the peer. `number` is the session's at this device.
  Session(const SessionContext& context, bool connector, Fd socket, std::uint32_t number,
          const bootstrap::Hello& peer, const bootstrap::Bytes32& key, Introduction introduction);

  const PeerIdentity& identity() const override { return connection_.identity(); }
  std::uint32_t number() const override { return connection_.number(); }
  std::uint32_t number_at_peer() const override { return connection_.number_at_peer(); }
  std::span<const std::byte, 32> session_key() const override { return connection_.key(); }
  Result<std::vector<std::byte>> call(std::string_view provider, std::span<const std::byte> request,
                                      Deadline deadline) override;
  void tell(std::string_view provider, std::span<const std::byte> notice) override;
  void peer_lost(Error cause) override;
  void lane_broken(Lane& lane, Error cause) override;
  Nanos given_up_after() const override { return connection_.given_up_after(); }

  const ControlConnection& connection() const { return connection_; }
  bool alive() const { return connection_.alive(); }
  Nanos silent_for() const { return connection_.silent_for(); }
  int fd() const { return connection_.fd(); }

  // The lanes of this session, on the connector's side. Both block.
  Result<std::shared_ptr<ChannelCore>> open_lane(std::uint32_t lane, Provider& provider,
                                                 const std::string& why, Deadline deadline);
  Status reconnect_lane(std::uint32_t lane, Deadline deadline);
  std::uint32_t next_lane(std::uint32_t count) { return lanes_.next(count); }

  void start_on_loop() { connection_.start_on_loop(); }
  // `first`: bytes that were read with the handshake.
  void ready_on_loop(std::span<const std::byte> first);
  // `awake`: how long this process could have heard the peer since the last call.
  void heartbeat_on_loop(Nanos awake) { connection_.heartbeat_on_loop(awake); }
  void process_ended_on_loop() { connection_.process_ended_on_loop(); }
  // Reads what has come, and says why the peer left if it said so; else `cause`.
  Error last_words_on_loop(const Error& cause);
  void lane_broken_on_loop(const Lane* lane, const Error& cause);
  void end_on_loop(const Error& cause);

 private:
  // What the connection calls for every frame that is not its own.
  ControlConnection::Handle handler() {
    return [this](const bootstrap::Frame& frame) { return handle_on_loop(frame); };
  }
  // Does what a frame of the peer's asks. A failure ends the session; what the peer's request fails
  // with is its answer.
  Status handle_on_loop(const bootstrap::Frame& frame);
  // Does what the peer says of one lane: it is ready, it is closed, or the connector is to connect
  // it anew, which is ignored at the other end. A lane whose channel is gone at this end is neither
  // closed nor connected again. A failure (a malformed frame) ends the session.
  Status handle_lane_on_loop(const bootstrap::Frame& frame);
  // Has the provider that the frame names serve it. Without `wants_answer` the outcome is dropped.
  void serve_on_loop(const bootstrap::Frame& frame, bool wants_answer);
  // Asks the address book for a name. The book answers when the name is published, or when the
  // peer's wait is over; the peer learns of a grant that it may use, and of no other.
  void look_up_on_loop(const bootstrap::Frame& frame);
  // What the channel of this lane uses of the session, which it keeps alive until its own end.
  ChannelCore::Home home_of(std::uint32_t lane);
  // The channel of the lane has ended. The connector ends the session with its last lane.
  void drop_lane(std::uint32_t lane);

  const SessionContext& context_;
  const bool connector_;
  ControlConnection connection_;
  SessionLanes lanes_;
};

}  // namespace ferry::fabric
