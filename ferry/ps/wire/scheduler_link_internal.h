#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ferry/ps/wire/rpc_internal.h"

namespace ferry::ps {

// The connection of a server or worker to the scheduler. Where the scheduler keeps a state, a
// thread makes it anew when the scheduler is gone, and calls wait for that. Thread-safe, but for
// stay() and destruction.
class SchedulerLink {
 public:
  // Waits for a scheduler that is not there yet. The device outlives it.
  static Result<std::unique_ptr<SchedulerLink>> connect(fabric::Device& device,
                                                        std::string endpoint, Deadline deadline);
  ~SchedulerLink();

  // As call(); too late, it says what the job lacks.
  Result<Bytes> join(Ask as, const Bytes& body, Deadline deadline);
  // Once joined: the question that says who this is to a scheduler that was started again, and what
  // it asks with.
  void stay(Ask back, const Bytes& who, const JobOptions& job, const fabric::Options& data);
  // The job is over for this one: a scheduler that goes from now on is not looked for.
  void end();
  // As RpcClient's; asked again, of the next scheduler, if the one that was asked is gone.
  Result<Bytes> call(Ask what, const Bytes& body, Deadline deadline);
  // False: it is gone and does not come back, or goes on without this one; lost() says why.
  bool alive();
  Status lost();
  // How often a connection was made.
  std::uint64_t made();
  // The scheduler may have turned away from this one: it is asked on a new connection, unless there
  // is one already that is newer than that.
  void suspect(std::uint64_t made);

 private:
  explicit SchedulerLink(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  // One that is not `stale`.
  Result<std::shared_ptr<RpcClient>> client_but(const RpcClient* stale, Deadline deadline);
  // The session lives, also while one of its lanes is being connected anew.
  bool is_connected() FERRY_REQUIRES(lock_) { return client_ != nullptr && !client_->lost(); }
  // What calls fail with when the scheduler is gone, or goes on without this one.
  tl::unexpected<Error> rejected() const;
  // Not destroyed at once: its channel is perhaps just being found broken, by a loop of the device.
  void set_aside() FERRY_REQUIRES(lock_);
  // The watcher's loop: connects anew whenever the connection is lost, until it is for good.
  void watch();
  // Looks for the scheduler until it is back, or has been away for too long: then lost_ says so.
  void reconnect();
  // Nothing: to be tried again. An error of its own: the scheduler does not want this one.
  Result<std::shared_ptr<RpcClient>> try_reconnect(Deadline deadline);
  // Waits for that long, or until the link is closed.
  void rest(Nanos span);

  const std::string endpoint_;
  fabric::Options options_;
  Ask back_{};
  Bytes who_;
  Nanos away_{0};
  Mutex lock_;
  std::condition_variable_any changed_;
  std::shared_ptr<RpcClient> client_ FERRY_GUARDED_BY(lock_);  // null: it is looked for
  std::vector<std::shared_ptr<RpcClient>> former_ FERRY_GUARDED_BY(lock_);
  std::optional<Error> lost_ FERRY_GUARDED_BY(lock_);
  std::uint64_t made_ FERRY_GUARDED_BY(lock_) = 1;
  bool stop_ FERRY_GUARDED_BY(lock_) = false;
  std::thread watcher_;
};

}  // namespace ferry::ps
