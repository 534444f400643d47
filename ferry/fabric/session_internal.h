#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/frame_socket_internal.h"
#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/liveness_internal.h"
#include "ferry/fabric/pending_calls_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/session_context_internal.h"
#include "ferry/fabric/session_frames_internal.h"

namespace ferry::fabric {

class ChannelCore;

// One authenticated peer and the control connection to it. Thread-safe; *_on_loop methods belong to
// the control loop. Ends once: then its lanes are closed and every call fails with the cause.
class Session final : public PeerSession, public std::enable_shared_from_this<Session> {
 public:
  Session(const SessionContext& context, bool connector, Fd socket, std::uint32_t number,
          const bootstrap::Hello& peer, const bootstrap::Bytes32& key, Introduction introduction);
  ~Session() override;

  const PeerIdentity& identity() const override { return introduction_.identity; }
  std::uint32_t number() const override { return number_; }
  std::uint32_t number_at_peer() const override { return number_at_peer_; }
  std::span<const std::byte, 32> session_key() const override { return key_; }
  Result<std::vector<std::byte>> call(std::string_view provider, std::span<const std::byte> request,
                                      Deadline deadline) override;
  void tell(std::string_view provider, std::span<const std::byte> notice) override;
  void peer_lost(Error cause) override;
  void lane_broken(Lane& lane, Error cause) override;
  Nanos given_up_after() const override { return liveness_.given_up_after(); }

  const std::map<std::string, std::vector<std::byte>>& offers() const {
    return introduction_.offers;
  }
  bool connector() const { return connector_; }
  bool alive() const { return alive_.load(std::memory_order_acquire); }
  Status check_alive() const;
  // How long nothing has been heard of the peer, once that is long enough to be named; else 0.
  Nanos silent_for() const { return liveness_.silent_for(); }
  // Sends one frame and waits for its answer. Not from a loop.
  Result<std::vector<std::byte>> request(FrameType type, std::span<const std::byte> payload,
                                         Deadline deadline);
  void send(FrameType type, std::uint64_t id, std::span<const std::byte> payload);
  void send_lane(FrameType type, std::uint32_t lane);

  // The lanes of this session. open_lane() is the connector's, blocking.
  Result<std::shared_ptr<ChannelCore>> open_lane(std::uint32_t lane, Provider& provider,
                                                 const std::string& why, Deadline deadline);
  Status reconnect_lane(std::uint32_t lane, Deadline deadline);
  std::uint32_t next_lane(std::uint32_t count) { return next_lane_.fetch_add(1) % count; }
  void drop_lane(std::uint32_t lane);

  void start();  // begins to read; after it is known to the control loop
  void ready_on_loop(std::span<const std::byte> first, std::uint32_t events);
  // `awake`: how long this process could have heard the peer since the last call.
  void heartbeat_on_loop(Nanos awake);
  void process_ended_on_loop() { liveness_.process_ended_on_loop(); }
  // Reads what has come, and says why the peer left if it said so; else `cause`.
  Error last_words_on_loop(const Error& cause);
  void lane_broken_on_loop(const Lane* lane, const Error& cause);
  void end_on_loop(const Error& cause);
  int fd() const { return socket_.fd(); }

 private:
  FrameSocket::Handle handler() {
    return [this](const bootstrap::Frame& frame) { return handle_on_loop(frame); };
  }
  Status handle_on_loop(const bootstrap::Frame& frame);
  Status handle_lane_on_loop(const bootstrap::Frame& frame);
  void open_on_loop(const bootstrap::Frame& frame);
  void serve_on_loop(const bootstrap::Frame& frame, bool wants_answer);
  void look_up_on_loop(const bootstrap::Frame& frame);
  Status answer_on_loop(const bootstrap::Frame& frame);
  tl::unexpected<Error> bye_on_loop(const bootstrap::Frame& frame);
  void answer(std::uint64_t id, const Result<std::vector<std::byte>>& result);
  std::shared_ptr<ChannelCore> core_of(std::uint32_t lane);

  const SessionContext& context_;
  const bool connector_;
  const std::uint32_t number_;
  const std::uint32_t number_at_peer_;
  const bootstrap::Bytes32 key_;
  const Introduction introduction_;
  std::atomic<bool> alive_{true};
  std::atomic<std::uint32_t> next_lane_{0};
  FrameSocket socket_;
  Liveness liveness_;
  PendingCalls calls_;
  std::shared_ptr<const Error> goodbye_;  // on the loop: why the peer left, as it said

  mutable Mutex lock_;
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> cores_ FERRY_GUARDED_BY(lock_);
  std::map<std::uint32_t, std::pair<Provider*, std::shared_ptr<Lane>>> accepted_
      FERRY_GUARDED_BY(lock_);  // not yet said to be ready
  std::shared_ptr<const Error> cause_ FERRY_GUARDED_BY(lock_);
  Mutex opening_;  // one lane is opened at a time; held while blocking
};

}  // namespace ferry::fabric
