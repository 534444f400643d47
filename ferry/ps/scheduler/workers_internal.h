#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ferry/ps/scheduler/job_image_internal.h"

namespace ferry::ps {

// The workers of a job by rank: who is there, who counts in which step, who waits at a barrier, and
// what servers are being told of one that enters or is out. A part of JobState: no thread, no I/O.
//
// Between calls: a worker that is not there is no member; at most one departure and one admission
// are on the way to the servers.
//
//   kExpected --join--> kThere --remove--> kOut --join--> kThere
class Workers {
 public:
  explicit Workers(const JobOptions& job);
  // Everybody who was there is away until set_peer().
  void restore(const JobImage& image);
  void save(JobImage& image) const;

  // The rank of a worker that joins. kOutOfRange, kAlreadyExists, kResourceExhausted.
  Result<std::uint32_t> join(PeerId peer, std::uint32_t wanted, std::uint64_t token);
  // kFailedPrecondition: nobody with this connection takes part.
  Result<std::uint32_t> rank_of(PeerId peer) const;
  const WorkerRecord& at(std::uint32_t rank) const { return workers_[rank]; }
  void set_host(std::uint32_t rank, const Enter& enter);
  // Answers to kNeighbours and kMembers.
  Bytes neighbours(std::uint32_t rank) const;
  Bytes members() const;
  bool any_member() const;  // somebody who ends steps, or may still come to do so
  bool all_out() const;
  std::uint32_t there() const;
  std::uint32_t dead() const { return dead_; }
  std::uint32_t left() const { return left_; }

  // True: it was let through this barrier already, and the answer was lost.
  bool passed_barrier(std::uint32_t rank, std::uint64_t number) const;
  // Its former question, if it waits at a barrier already: it has asked again.
  std::optional<Question> wait_at_barrier(std::uint32_t rank, const Question& question,
                                          std::uint64_t number);
  // Whom the barrier lets through now: everybody, if all who may still come wait there, but for
  // those who have not entered: they may wait for a step of those who wait here.
  std::vector<Question> release_barrier();
  std::vector<Question> take_waiting();  // at the barrier

  // The worker is out. With `tell`, its departure is to be decided by what servers have seen of it.
  // Its question at the barrier, if it waits there.
  std::optional<Question> remove(std::uint32_t rank, bool died, bool tell);
  const std::optional<DepartureRecord>& departure() const { return departure_; }
  // What the worker has ended somewhere counts everywhere; the rest counts nowhere. `through`: the
  // last step that it ended; `folded`: the open step in which gradients of it were added up.
  void decide_departure(std::uint64_t through, std::uint64_t folded);
  void end_departure() { departure_.reset(); }

  // The worker counts after step `since`, once servers have been told.
  void admit(std::uint32_t rank, std::uint64_t since);
  const std::optional<AdmissionRecord>& admission() const { return admission_; }
  void end_admission() { admission_.reset(); }

  // After a restart of the scheduler. kPermissionDenied, kAlreadyExists: it has left, kUnavailable:
  // the job goes on without it. `returning`: it may change its connection.
  Status check_return(const WorkerBack& back, bool returning) const;
  void set_peer(std::uint32_t rank, PeerId peer) { workers_[rank].peer = peer; }
  bool any_away() const;
  // Of those who are away, all or these are to be removed: next_absent() has them one by one.
  void mark_absent(const std::set<std::uint32_t>& ended, bool all);
  std::optional<std::uint32_t> next_absent();

 private:
  struct WorkerAt : WorkerRecord {
    PeerId peer = kNoPeer;
    std::uint64_t barrier = 0;  // the last one it has asked for
  };
  // Whether the worker took part before the scheduler was restarted, and has not come back.
  bool is_away(const WorkerAt& worker) const {
    return worker.state == WorkerState::kThere && worker.peer == kNoPeer;
  }
  // The rank for a worker that joins: the one that it wants, else one that was never taken before
  // one whose worker is out.
  Result<std::uint32_t> choose_rank(std::uint32_t wanted) const;
  std::optional<Question> take_from_barrier(std::uint32_t rank);

  const JobOptions job_;
  std::vector<WorkerAt> workers_;
  std::map<std::uint32_t, Question> barrier_;  // by rank
  std::uint32_t last_attempt_ = 0;
  std::uint32_t dead_ = 0;
  std::uint32_t left_ = 0;
  std::optional<DepartureRecord> departure_;
  std::optional<AdmissionRecord> admission_;
  std::deque<std::uint32_t> absent_;
};

}  // namespace ferry::ps
