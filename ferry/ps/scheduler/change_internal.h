#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ferry/ps/scheduler/servers_internal.h"
#include "ferry/ps/scheduler/tensors_internal.h"
#include "ferry/ps/scheduler/workers_internal.h"

namespace ferry::ps {

enum class Progress : std::uint8_t { kWaits, kDone };

// A change of the job for which others must be asked: servers, the disk, an endpoint. It is begun,
// hands out one effect that has an outcome at a time, and gets that outcome before anything else
// happens to the job. JobState has one of them under way at a time. A change that is done has
// answered the question that it was made for; one that is aborted answers it then.
class Change {
 public:
  virtual ~Change() = default;
  // Begins the change. kWaits: `out` got one effect that has an outcome, or fatal() says why the
  // job cannot go on.
  virtual Progress begin(Effects& out) = 0;
  // Takes that outcome, and goes on. A change takes the kinds of outcome that it asks for.
  virtual Progress take(const ServersAnswered& /*event*/, Effects& /*out*/) {
    return Progress::kDone;
  }
  virtual Progress take(const Connected& /*event*/, Effects& /*out*/) { return Progress::kDone; }
  virtual Progress take(const SnapshotBegun& /*event*/, Effects& /*out*/) {
    return Progress::kDone;
  }
  virtual Progress take(const SnapshotFinished& /*event*/, Effects& /*out*/) {
    return Progress::kDone;
  }
  // The job has failed meanwhile.
  virtual void abort(const Error& /*cause*/, Effects& /*out*/) {}
  // Why the job cannot go on after this change.
  const std::optional<Error>& fatal() const { return fatal_; }

 protected:
  std::optional<Error> fatal_;
};

// A worker is out: all servers stop listening to it and say what they have seen of it (kFreezing),
// then all of them are told up to which step it counts (kTelling). The record of it is in Workers,
// so that the next scheduler goes on in the middle.
class Departure final : public Change {
 public:
  Departure(Workers& workers, Servers& servers, Tensors& tensors)
      : workers_(workers), servers_(servers), tensors_(tensors) {}
  Progress begin(Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;

 private:
  // Of what servers have seen of the worker, decides up to which step it counts. A server that did
  // not answer is lost: it may still hear the worker.
  Progress decide(const ServersAnswered& event, Effects& out);
  // Tells all servers what was decided.
  Progress tell(Effects& out);
  Workers& workers_;
  Servers& servers_;
  Tensors& tensors_;
};

// A worker that joins late, or comes back, is part of the first step that no shard can have
// applied: no shard goes on (kHolding) until all are told from which step on it counts (kTelling).
// Without a question: another scheduler was about to tell.
class Admission final : public Change {
 public:
  Admission(Workers& workers, Servers& servers, bool replicated, std::uint32_t rank = kNobody,
            std::optional<Question> question = {})
      : workers_(workers),
        servers_(servers),
        replicated_(replicated),
        rank_(rank),
        question_(question) {}
  Progress begin(Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;
  void abort(const Error& cause, Effects& out) override;

 private:
  // All shards hold: the worker counts after the newest step of theirs.
  Progress decide(const ServersAnswered& event, Effects& out);
  // Tells all servers, which ends the hold, too: of nobody, if there is no admission.
  Progress tell(Effects& out);
  Workers& workers_;
  Servers& servers_;
  const bool replicated_;
  const std::uint32_t rank_;
  const std::optional<Question> question_;
  enum class Phase : std::uint8_t { kHolding, kTelling } phase_ = Phase::kHolding;
  std::optional<Error> failure_;  // a server could not hold
};

// After a restart of the scheduler: servers are told which tensors there are, and say which
// workers' channels have ended. Workers that are away and have ended, or all that are away, are
// absent.
class RollCall final : public Change {
 public:
  RollCall(Workers& workers, Servers& servers, const Tensors& tensors, bool all, bool tell_view)
      : workers_(workers), servers_(servers), tensors_(tensors), all_(all), tell_view_(tell_view) {}
  Progress begin(Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;

 private:
  Workers& workers_;
  Servers& servers_;
  const Tensors& tensors_;
  const bool all_;
  const bool tell_view_;
};

// A server that joins, takes a free place, or comes back, is connected to before it is answered.
class Arrival final : public Change {
 public:
  enum class Kind : std::uint8_t { kJoins, kTakesPlace, kReturns };
  Arrival(Servers& servers, Kind kind, std::uint32_t index, Spare spare)
      : servers_(servers), kind_(kind), index_(index), spare_(std::move(spare)) {}
  Progress begin(Effects& out) override;
  Progress take(const Connected& event, Effects& out) override;
  void abort(const Error& cause, Effects& out) override;

 private:
  Servers& servers_;
  const Kind kind_;
  const std::uint32_t index_;
  const Spare spare_;  // who it is
};

// The candidate gets its copies: it makes the tensors (kMaking), all shards hold at a step that
// nobody can have ended (kHolding), everybody is told that the candidate has the steps after the
// next one, and the candidate begins to copy (kStarting). It says itself when it has caught up.
class StateTransfer final : public Change {
 public:
  enum class Phase : std::uint8_t { kMaking, kHolding, kStarting };
  // kStarting: another scheduler had told everybody.
  StateTransfer(Servers& servers, const Tensors& tensors, Phase phase)
      : servers_(servers), tensors_(tensors), phase_(phase), index_(*servers.candidate()) {}
  Progress begin(Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;

 private:
  // The candidate has made the tensors, or is lost: all shards are to hold.
  Progress made(const ServersAnswered& event, Effects& out);
  // All shards hold: tells everybody from which step on the candidate takes part, ends the hold,
  // and asks the candidate to copy.
  Progress held(const ServersAnswered& event, Effects& out);
  // The candidate copies, or is lost. One that another scheduler had asked before says so.
  Progress started(const ServersAnswered& event, Effects& out);
  Servers& servers_;
  const Tensors& tensors_;
  Phase phase_;
  const std::uint32_t index_;
};

// All servers make the parts of a new tensor before anybody learns of it; if one cannot, the others
// forget them.
class Creation final : public Change {
 public:
  Creation(Tensors& tensors, const Servers& servers, const JobOptions& job, Asked asked,
           std::uint32_t creator)
      : tensors_(tensors),
        servers_(servers),
        job_(job),
        question_(asked.question),
        info_(std::get<InitTensor>(std::move(asked.request)).info),
        creator_(creator) {}
  Progress begin(Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;
  void abort(const Error& cause, Effects& out) override;

 private:
  Tensors& tensors_;
  const Servers& servers_;
  const JobOptions& job_;
  const Question question_;
  TensorInfo info_;
  const std::uint32_t creator_;
};

// What a job begins with, if anything.
struct SnapshotToRestore {
  std::string path;
  std::vector<TensorInfo> tensors;
  std::uint32_t servers = 0;
};

// The last server is ready: it is answered when the tensors of the snapshot are on the servers, one
// after the other. If that fails, so does the job.
class Restoration final : public Change {
 public:
  Restoration(Tensors& tensors, const Servers& servers, const JobOptions& job,
              SnapshotToRestore snapshot, const Question& question)
      : tensors_(tensors),
        servers_(servers),
        job_(job),
        snapshot_(std::move(snapshot)),
        question_(question) {}
  Progress begin(Effects& out) override { return next(out); }
  Progress take(const ServersAnswered& event, Effects& out) override;
  void abort(const Error& cause, Effects& out) override;

 private:
  // Asks servers to restore the next tensor; after the last one answers the question.
  Progress next(Effects& out);
  Tensors& tensors_;
  const Servers& servers_;
  const JobOptions& job_;
  const SnapshotToRestore snapshot_;
  const Question question_;
  std::size_t done_ = 0;  // tensors
  TensorInfo info_;       // of the one that servers are asked to restore
};

// A folder is made (kBeginning), each server writes a file (kSaving), and then the manifest is
// written (kFinishing).
class SnapshotChange final : public Change {
 public:
  SnapshotChange(const Servers& servers, const Tensors& tensors, const Question& question,
                 std::string folder)
      : servers_(servers), tensors_(tensors), question_(question), folder_(std::move(folder)) {}
  Progress begin(Effects& out) override;
  Progress take(const SnapshotBegun& event, Effects& out) override;
  Progress take(const ServersAnswered& event, Effects& out) override;
  Progress take(const SnapshotFinished& event, Effects& out) override;
  void abort(const Error& cause, Effects& out) override;

 private:
  // Answers the question with this error: the change is done.
  Progress refuse(const Error& cause, Effects& out);
  const Servers& servers_;
  const Tensors& tensors_;
  const Question question_;
  const std::string folder_;
  std::string path_;
};

}  // namespace ferry::ps
