#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ps/scheduler.h"
#include "ferry/ps/scheduler/change_internal.h"
#include "ferry/ps/scheduler/spares_internal.h"

namespace ferry::ps {

// Decides for the scheduler: an event goes in, a list of effects comes out. No I/O, no clock and no
// thread; not thread-safe. Whoever performs the effects, in order, feeds the outcome of one that
// has an outcome back at once, before the next effect or event.
//
// Between events from outside: no change is under way; every question was answered once or waits
// for a named reason (for servers: joining_; for a place: Spares; for a candidate: entering_; at
// the barrier: Workers; for first values: Tensors; for servers that may come back: deferred_); what
// anybody was told is in an image that was handed out before, in a WriteState.
//
//   kForming ---all servers ready---> kRunning ---every worker out---> kOver
//   kReturning -all back, or late-->     |                               |
//        any but kFailed ----a cause that the job cannot go on with----> kFailed
class JobState {
 public:
  struct Setup {
    JobOptions job{};
    bool writes_state = false;
    std::optional<SnapshotToRestore> snapshot{};
  };
  explicit JobState(Setup setup);
  // Goes on with the job of an image. Its members have until then to come back.
  JobState(Setup setup, const JobImage& image, std::int64_t back_by_ns);

  // Where the scheduler listens; before the first event.
  void set_endpoint(std::string endpoint) { endpoint_ = std::move(endpoint); }
  // If the image has changed, the first effect is to write it.
  Effects take(const Event& event);
  SchedulerStats stats() const;
  Bytes image() const;

 private:
  enum class Phase : std::uint8_t { kForming, kReturning, kRunning, kOver, kFailed };
  struct Joining {
    Question question;
    JoinWorker request;
  };
  // An answer, or nothing: it comes later.
  using Reply = Result<std::optional<Bytes>>;

  // Each does what one kind of event asks for; what follows from the new state is left to run().
  void on(const Asked& event);
  void on(const Disconnected& event);
  void on(const ServerSilent& event);
  void on(const Tick& event);
  void on(const Probed& event);
  void on(const StateNotWritten& event);
  // The outcome of what the change under way has asked for.
  template <class Outcome>
  void on(const Outcome& event) {
    if (!agenda_.empty() && agenda_.front()->take(event, out_) == Progress::kDone) end_change();
  }

  // Each handles one kind of request of a server or a worker. A failure is its answer.
  Reply handle(const Question& question, const JoinServer& request);
  Reply handle(const Question& question, const ServerReady& request);
  Reply handle(const Question& question, const JoinWorker& request);
  Reply handle(const Question& question, const Enter& request);
  Reply handle(const Question& question, const CaughtUp& request);
  Reply handle(const Question& question, const InitTensor& request);
  Reply handle(const Question& question, const FindTensor& request);
  Reply handle(const Question& question, const TensorThere& request);
  Reply handle(const Question& question, const TakeSnapshot& request);
  Reply handle(const Question& question, const WaitBarrier& request);
  Reply handle(const Question& question, const Show& request);
  Reply handle(const Question& question, const Leave& request);
  Reply handle(const Question& question, const ServerBack& request);
  Reply handle(const Question& question, const WorkerBack& request);
  // A worker that has attached to all servers wants to count.
  Reply admit(const Question& question);
  // Keeps the question until all servers are back, in place of a former one that was resent.
  void defer(const Asked& event);
  // Answers the question now, unless the reply says that the answer comes later.
  void answer(const Question& question, const Reply& reply);

  // Puts a change behind those that are to be made; run() begins it.
  template <class Kind, class... Args>
  void start(Args&&... args) {
    agenda_.push_back(std::make_unique<Kind>(std::forward<Args>(args)...));
  }
  // The change under way is done.
  void end_change();
  // Begins changes, and what follows from the state, until a change waits for an outcome.
  void run();
  // Does one thing that follows from the state while no change is under way. False: nothing does.
  bool follow_up();
  // The same for places of servers and for workers that wait for a candidate.
  bool follow_up_servers();
  // The worker is out of the job, which fails if more have died than may. While the job runs, a
  // Departure tells the servers.
  void remove_worker(std::uint32_t rank, bool died);
  // Repeats what the scheduler before may have been in the middle of.
  void resume_job(bool late);
  enum class Tell : bool { kNobody, kServers };
  // Ends the job with this error, the first time: aborts the changes, refuses all who wait, and
  // tells servers the cause, unless that is another scheduler's to say.
  void fail_job(const Error& error, const AbortCause& cause, Tell tell = Tell::kServers);
  // Every worker is out: servers are told that the job is over, and all who wait are refused.
  void end_job();
  // Answers all questions that wait with this error.
  void refuse_waiting(const Error& cause);

  const JobOptions job_;
  Workers workers_;
  Servers servers_;
  Spares spares_;
  Tensors tensors_;
  Phase phase_ = Phase::kForming;
  std::optional<Error> failure_;
  std::optional<SnapshotToRestore> snapshot_;   // that the job is to begin with
  std::deque<std::unique_ptr<Change>> agenda_;  // the first one is under way
  bool front_begun_ = false;                    // it waits for an outcome
  std::deque<Joining> joining_;                 // workers that came before the servers
  std::deque<Question> entering_;               // workers that wait until a candidate has caught up
  std::deque<Asked> deferred_;                  // until servers are back
  std::optional<std::int64_t> back_by_ns_;      // those who were there may still come back
  std::int64_t next_look_ns_ = 0;               // for those of them who have ended
  std::string endpoint_;
  bool writes_state_ = false;
  bool not_written_ = false;  // the state is not this scheduler's, or lost
  Bytes written_;             // the last image that was handed out
  Effects out_;               // of the event that is being taken
};

}  // namespace ferry::ps
