#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/base/log_limit.h"
#include "ferry/bootstrap/hello.h"
#include "ferry/fabric/admission_internal.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/process_watch_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

class DeviceCore;

// The control plane of a device: admission of newcomers, sessions and their heartbeats, all on a
// loop of its own, so that whoever waits for an answer reads it himself.
class Control final : private Loop::Source {
 public:
  static Result<std::unique_ptr<Control>> open(DeviceCore& device);
  ~Control() override;

  Loop& loop() { return *loop_; }
  // Newcomers are taken from now on: the device can introduce itself.
  Status ready();
  const std::string& endpoint() const { return admission_->endpoint(); }

  std::uint32_t next_number() { return next_number_.fetch_add(1); }
  // Takes a session that has just been joined; `first` are bytes that came behind the handshake.
  Status add(std::shared_ptr<Session> session, std::span<const std::byte> first);
  // Which events of the session's socket the loop looks for.
  Status watch(Session& session, std::uint32_t events);
  // Something went wrong with a session: it ends, or one of its lanes is connected anew.
  struct Failure {
    std::shared_ptr<Session> session;
    Error cause;
    const Lane* lane = nullptr;  // compared, never used: it may be gone
  };
  // Soon, on the control loop. Any thread, also one that holds a loop's token.
  void report(Failure failure);
  // A live session that this device opened to the endpoint.
  std::shared_ptr<Session> find(std::string_view endpoint);
  std::size_t sessions() const { return count_.load(std::memory_order_relaxed); }
  // Refuses newcomers and ends every session.
  void shut(const Error& cause);

 private:
  Control(DeviceCore& device) : device_(device) {}
  int progress_on_loop() override;
  void ready_on_loop(std::uint64_t cookie, std::uint32_t events) override;
  void tick_on_loop(std::int64_t now) override;
  bool has_pending() const override;

  void admit_on_loop(Admission::Joined newcomer);
  Status admissible(const bootstrap::Hello& hello) const;
  void end_on_loop(const std::shared_ptr<Session>& session, const Error& cause);
  void not_a_session_on_loop(int fd);

  DeviceCore& device_;
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
  std::vector<Failure> failures_ FERRY_GUARDED_BY(lock_);
  std::atomic<bool> any_failure_{false};
  std::map<std::string, std::weak_ptr<Session>, std::less<>> dialled_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
