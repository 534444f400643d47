#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferry/base/fd.h"
#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/bootstrap/frame.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/frame_socket_internal.h"
#include "ferry/fabric/introduction_internal.h"
#include "ferry/fabric/liveness_internal.h"
#include "ferry/fabric/pending_calls_internal.h"
#include "ferry/fabric/session_context_internal.h"
#include "ferry/fabric/session_frames_internal.h"

namespace ferry::fabric {

// One authenticated peer and the control connection to it: who the peer is and whether it lives,
// frames to it, questions and their answers. Knows nothing of lanes. Thread-safe; *_on_loop methods
// belong to the control loop.
//
// Ends once, when the control loop says so: from then on it has a cause, which whoever asks the
// peer fails with.
class ControlConnection {
 public:
  using Handle = FrameSocket::Handle;

  // `number` is the session's at this device. `lost` is called, from any thread, when the
  // connection breaks or the peer does not live any more; the connection goes on until its end.
  ControlConnection(const SessionContext& context, Fd socket, std::uint32_t number,
                    const bootstrap::Hello& peer, const bootstrap::Bytes32& key,
                    Introduction introduction, std::function<void(Error)> lost);

  const PeerIdentity& identity() const { return introduction_.identity; }
  const std::map<std::string, std::vector<std::byte>>& offers() const {
    return introduction_.offers;
  }
  std::uint32_t number() const { return number_; }
  std::uint32_t number_at_peer() const { return number_at_peer_; }
  std::span<const std::byte, 32> key() const { return key_; }

  bool alive() const { return alive_.load(std::memory_order_acquire); }
  // The cause of the end, after it.
  Status check_alive() const;
  // How long nothing has been heard of the peer, once that is long enough to be named; else 0.
  Nanos silent_for() const { return liveness_.silent_for(); }
  // The silence after which this side gave the peer up; 0: it did not.
  Nanos given_up_after() const { return liveness_.given_up_after(); }

  // Sends one frame and waits for its answer. Not from a loop.
  Result<std::vector<std::byte>> request(FrameType type, std::span<const std::byte> payload,
                                         Deadline deadline);
  // Sends one frame, or nothing after the end of the connection. A failure is reported to `lost`.
  void send(FrameType type, std::uint64_t id, std::span<const std::byte> payload);
  // Sends a frame whose payload is the number of a lane alone.
  void send_lane_frame(FrameType type, std::uint32_t lane);
  // Answers the peer's request with this id.
  void send_answer(std::uint64_t id, const Result<std::vector<std::byte>>& result);

  void start_on_loop();  // begins to read; after it is known to the control loop
  // Reads what has come. Pings, answers and goodbyes are the connection's own; all other frames go
  // to `handle`. `first`: bytes that were read with the handshake.
  void ready_on_loop(std::span<const std::byte> first, const Handle& handle);
  // `awake`: how long this process could have heard the peer since the last call.
  void heartbeat_on_loop(Nanos awake);
  void process_ended_on_loop() { liveness_.process_ended_on_loop(); }
  // Reads what has come, and says why the peer left if it said so; else `cause`. A peer that gives
  // us up closes its lanes, too: whichever end is seen first, its word counts.
  Error last_words_on_loop(const Error& cause, const Handle& handle);
  // False if it had ended before.
  bool end_on_loop(const Error& cause);
  int fd() const { return socket_.fd(); }

 private:
  // Handles a frame that is the connection's own; all other frames go to `others`. A failure ends
  // the reading, and is reported to `lost`.
  Status handle_on_loop(const bootstrap::Frame& frame, const Handle& others);
  // Gives an answer to the thread that waits for it in request(). An answer for which nobody waits
  // any more is dropped.
  Status take_answer_on_loop(const bootstrap::Frame& frame);
  // Notes why the peer leaves. That is returned as a failure, so that nothing more is read.
  tl::unexpected<Error> bye_on_loop(const bootstrap::Frame& frame);

  const SessionContext& context_;
  const std::uint32_t number_;
  const std::uint32_t number_at_peer_;
  const bootstrap::Bytes32 key_;
  const Introduction introduction_;
  const std::function<void(Error)> lost_;
  std::atomic<bool> alive_{true};
  FrameSocket socket_;
  Liveness liveness_;
  PendingCalls calls_;
  std::shared_ptr<const Error> goodbye_;  // on the loop: why the peer left, as it said

  mutable Mutex lock_;
  std::shared_ptr<const Error> cause_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
