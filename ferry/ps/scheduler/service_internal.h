#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ferry/ps/scheduler.h"
#include "ferry/ps/scheduler/job_state_internal.h"
#include "ferry/ps/scheduler/store_internal.h"
#include "ferry/ps/wire/job_end_internal.h"
#include "ferry/ps/wire/rpc_internal.h"

namespace ferry::ps {

// The scheduler's hands: makes events of messages, lost connections and time, and performs the
// effects that JobState answers with. Handler's calls and everything private run on the one thread
// of the RpcServer, and an event is done, with all that follows from it, before the next one; the
// rest is thread-safe.
class Scheduler::Service final : public RpcServer::Handler {
 public:
  static Result<std::unique_ptr<Service>> open(SchedulerOptions options);

  std::string endpoint() const { return control_->endpoint(); }
  Status wait(Deadline deadline) { return end_.wait(deadline); }
  SchedulerStats stats();

  Result<std::optional<Bytes>> asked(const RpcServer::Question& question,
                                     bootstrap::Decoder& body) override;
  void gone(std::uint64_t peer) override;
  void tick() override;

 private:
  explicit Service(SchedulerOptions options) : options_(std::move(options)) {}
  // The job that the store has, or a new one.
  Status open_job();
  // Opens the store, and loads the image of a job that a scheduler before has left there, if any.
  Result<std::optional<JobImage>> load_image(const JobOptions& job);
  // The newest whole snapshot that the job is to begin with; none if there are none at all.
  Result<std::optional<SnapshotToRestore>> find_snapshot() const;

  // Copies the statistics of the job to where stats() reads them.
  void publish_stats();
  // Feeds an event to the job, and performs what follows from it.
  void take(const Event& event);
  // Performs effects in order, and feeds back each outcome at once. If the state could not be
  // written, nothing else is done but that all questions are refused.
  void perform(const Effects& effects);
  // These perform one effect each, and return its outcome, if it has one.
  std::optional<Event> perform(const WriteState& effect);
  std::optional<Event> perform(const Answer& effect);
  std::optional<Event> perform(const AskServers& effect);
  std::optional<Event> perform(const TellServers& effect);
  std::optional<Event> perform(const Connect& effect);
  std::optional<Event> perform(const Disconnect& effect);
  static std::optional<Event> perform(const Probe& effect);
  static std::optional<Event> perform(const BeginSnapshot& effect);
  static std::optional<Event> perform(const FinishSnapshot& effect);
  static std::optional<Event> perform(const Log& effect);
  std::optional<Event> perform(const EndJob& effect);
  // How long a server may take to answer. Without a second copy the job ends with the server, which
  // gets all the time there is.
  Nanos server_answers() const;
  // Asks one server, and waits for its answer; what needs a disk gets more time.
  Result<Bytes> ask_server(std::uint32_t server, Ask what, const Bytes& body);

  const SchedulerOptions options_;
  std::unique_ptr<Store> store_;  // null: nothing is kept
  std::string former_endpoint_;   // of the scheduler before this one; empty: there was none
  std::unique_ptr<JobState> job_;
  std::optional<fabric::Device> asking_;
  std::map<std::uint32_t, std::unique_ptr<RpcClient>> clients_;  // to ask servers, by index
  JobEnd end_;
  Mutex lock_;
  SchedulerStats stats_ FERRY_GUARDED_BY(lock_);
  std::unique_ptr<RpcServer> control_;  // its thread stops first, and uses it until then
};

}  // namespace ferry::ps
