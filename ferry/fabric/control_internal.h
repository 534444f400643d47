#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/base/log_limit.h"
#include "ferry/bootstrap/dial.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/admission_internal.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/process_watch_internal.h"
#include "ferry/fabric/session_context_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

// The control plane of a device: admission of newcomers, sessions and their heartbeats, all on a
// loop of its own, so that whoever waits for an answer reads it himself.
class Control final : private Loop::Source {
 public:
  // `lent` is what the device lends to sessions. It and the secret outlive the control plane.
  static Result<std::unique_ptr<Control>> open(const DeviceId& id, const bootstrap::Secret& secret,
                                               SessionContext lent);
  ~Control() override;

  Loop& loop() { return *loop_; }
  // Newcomers are taken from now on, and are told what the device says of itself.
  Status ready(std::vector<std::byte> introduction);
  const std::string& endpoint() const { return admission_->endpoint(); }

  std::uint32_t next_number() { return next_number_.fetch_add(1); }
  // Makes the session with a peer that this device has joined, under the number that the peer was
  // told.
  Result<std::shared_ptr<Session>> add(std::uint32_t number, bootstrap::Dialled dialled,
                                       Introduction introduction);
  // A live session that this device opened to the endpoint; null if there is none.
  std::shared_ptr<Session> find(std::string_view endpoint);
  std::size_t sessions() const { return count_.load(std::memory_order_relaxed); }
  // Refuses newcomers and ends every session.
  void shut(const Error& cause);

 private:
  explicit Control(SessionContext lent) : context_(std::move(lent)) {}
  // Acts upon what was reported: ends sessions, and has broken lanes connected anew.
  int progress_on_loop() override;
  // `cookie` is the descriptor: the listener's, a newcomer's, a session's, or that of a process.
  void ready_on_loop(std::uint64_t cookie, std::uint32_t events) override;
  // Gives up newcomers and look-ups that waited too long, and gives every session its heartbeat,
  // every 100 ms.
  void tick_on_loop(std::int64_t now) override;
  // Whether newcomers have taken all places, or heartbeats are due.
  bool has_pending() const override;

  // Leaves a failure to the control loop, which acts upon it soon. Any thread may call it, also one
  // that holds a loop's token.
  void report(SessionFailure failure);
  // A newcomer has shown that it knows the secret: it becomes a session, or a provider adopts its
  // socket as a lane. Who is refused is counted and logged.
  void admit_on_loop(Admission::Joined newcomer);
  // Enters a new session, and begins to read. `first`: bytes that were read with the handshake.
  void start_on_loop(const std::shared_ptr<Session>& session, std::span<const std::byte> first);
  // Whether a newcomer that says this of itself may join; if not, the error is what it is told.
  Status admissible(const bootstrap::Hello& hello) const;
  // Ends a session, unless it has ended: forgets it, then tells its lanes why, in the peer's own
  // words if it has sent some.
  void end_on_loop(const std::shared_ptr<Session>& session, const Error& cause);
  // A descriptor that is no session's is ready: a process of this host has ended, or a session
  // ended while somebody sent to it.
  void not_a_session_on_loop(int fd);

  SessionContext context_;  // complete once open() has returned
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Admission> admission_;
  LogLimit refused_{"refused peers and lanes"};
  std::atomic<std::uint32_t> next_number_{1};
  std::map<int, std::shared_ptr<Session>> by_fd_;  // on the loop
  std::optional<ProcessWatch> processes_;          // on the loop
  std::int64_t last_tick_ = 0;                     // on the loop
  std::atomic<std::int64_t> last_tick_seen_{0};
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> shut_{false};
  Mutex lock_;
  std::vector<SessionFailure> failures_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> any_failure_{false};
  std::map<std::string, std::weak_ptr<Session>, std::less<>> dialled_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
