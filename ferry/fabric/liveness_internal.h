#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "ferry/base/clock.h"
#include "ferry/base/error.h"
#include "ferry/fabric/peer_watch_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

// Whether the peer of one session lives, as far as its control connection, the kernel of its host
// and the end of its process tell: feeds a PeerWatch, and says once what has become of the peer.
//
// The *_on_loop methods belong to the control loop, the others are thread-safe.
class Liveness {
 public:
  // `silent_peers` counts the silent ones of a device; this object adds its own while it is one.
  Liveness(const Options& options, int socket, const PeerIdentity& peer,
           std::atomic<std::uint64_t>& silent_peers);

  // Bytes of the peer were read.
  void hear_on_loop();
  // The peer's process has ended, as the kernel of this host tells. The end of the connection
  // follows at once, unless a child that the process has forked keeps it open. What the peer still
  // said is read first, so this counts at the next look.
  void process_ended_on_loop() { process_ended_ = true; }
  // `awake`: how long this process could have heard the peer since the last call. An error: the
  // peer is lost, for that cause. Logs when the peer falls silent and when it speaks again.
  Status look_on_loop(Nanos awake);
  bool ping_is_due_on_loop(Nanos awake) { return watch_.ping_is_due(awake); }
  // The session has ended: the peer is silent no more.
  void end_on_loop();

  // How long nothing has been heard of the peer, once that is long enough to be named; else 0.
  Nanos silent_for() const { return Nanos(silent_ns_.load(std::memory_order_acquire)); }
  // The silence after which this side gave the peer up; 0: it did not.
  std::chrono::milliseconds given_up_after() const {
    return std::chrono::milliseconds(given_up_ms_.load(std::memory_order_relaxed));
  }

 private:
  // Whether bytes have come since the last call that are not read yet. A session that is paused is
  // not read: what lies there for long says nothing.
  bool has_unread_bytes();
  // Whether the kernel of the peer's host has taken bytes of ours since the last call, or none
  // wait.
  bool host_acknowledges();
  // Counts and logs what was found of the peer. Fails if the peer is given up.
  Status judge(PeerWatch::Verdict verdict);

  const int socket_;
  const PeerIdentity& peer_;
  const Nanos give_up_;
  std::atomic<std::uint64_t>& silent_peers_;
  PeerWatch watch_;                       // on the loop
  int unread_ = 0;                        // on the loop: bytes at the last look, if none was read
  std::uint64_t acknowledged_bytes_ = 0;  // on the loop: by the peer's host, at the last look
  bool process_ended_ = false;            // on the loop
  std::atomic<std::int64_t> silent_ns_{0};
  std::atomic<std::uint32_t> given_up_ms_{0};
};

}  // namespace ferry::fabric
