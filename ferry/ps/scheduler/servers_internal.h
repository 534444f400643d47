#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ferry/ps/scheduler/job_image_internal.h"
#include "ferry/ps/scheduler/spares_internal.h"
#include "ferry/ps/wire/abort_cause_internal.h"

namespace ferry::ps {

// The servers of a job, and the view that says which of them take part. A part of JobState: no
// thread, no I/O.
//
// Between calls: of two neighbours at least one is in the view, unless fatal() says that the job
// cannot go on; the view's number grows with every change of the view. A spare that has got a place
// is the candidate until it has its copies:
//
//   none --assign_spare--> kMaking --set_ready--> kReady --start_catching_up--> kCatchingUp
//   any of these --lose--> none          kCatchingUp --end_catching_up--> none, in the view
class Servers {
 public:
  explicit Servers(const JobOptions& job) : job_(job) {}
  // All of them are away until set_peer().
  void restore(const JobImage& image);
  void save(JobImage& image) const;

  // kInvalidArgument: the server's shards are not as many as the others'.
  Status check_shards(const ServerPlace& place) const;
  bool is_full() const { return servers_.size() == job_.servers; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(servers_.size()); }
  void add(PeerId peer, const ServerPlace& place, std::uint64_t token);
  // The answer to a server that joins.
  Bytes place_answer(std::uint32_t index) const;
  // kUnavailable: this connection is no server's.
  Status set_ready(PeerId peer);
  bool all_ready() const;
  std::size_t shards() const;
  std::vector<ServerPlace> places() const;
  const ServerPlace& place(std::uint32_t index) const { return servers_[index].place; }
  std::optional<std::uint32_t> find(PeerId peer) const;

  // A question for all servers that take part, or are about to; the same where nothing depends on
  // the answers.
  AskServers ask(Ask what, const Bytes& body) const;
  TellServers tell(Ask what, const Bytes& body) const;
  TellServers tell_view() const;
  std::vector<std::uint32_t> in_view() const;
  const JobView& view() const { return view_; }

  // The server is gone. If the other copy of its blocks is there, that one takes over and all are
  // told the new view; else the job cannot go on.
  void lose(std::uint32_t index, Effects& out);
  const std::optional<Error>& fatal() const { return fatal_; }
  const AbortCause& fatal_cause() const { return fatal_cause_; }
  // The job has ended: a server that goes is no news.
  void end() { ended_ = true; }

  // A place that no candidate is about to take; none: no spare is needed now.
  std::optional<std::uint32_t> free_place() const;
  // The spare is the candidate for this place.
  void assign_spare(std::uint32_t place, const Spare& spare);
  std::optional<std::uint32_t> candidate() const { return candidate_; }
  bool is_candidate_ready() const { return candidate_ && transfer_ == Transfer::kReady; }
  bool is_catching_up() const { return view_.coming != JobView::kNobody; }
  // From now on the candidate is asked and told what the others are.
  void include_candidate() { servers_[*candidate_].alive = true; }
  // The candidate has the steps after `since`.
  void start_catching_up(std::uint64_t since);
  // Asks the candidate to copy the shards of its neighbours.
  AskServers ask_to_catch_up() const;
  // The candidate has its copies: it is part of the view, which servers are told.
  void end_catching_up(Effects& out);

  // After a restart of the scheduler. kPermissionDenied, kUnavailable: the job goes on without it.
  Status check_return(const ServerBack& back, bool returning) const;
  void set_peer(std::uint32_t index, PeerId peer) { servers_[index].peer = peer; }
  std::vector<std::uint32_t> absent() const;

 private:
  struct ServerAt : ServerRecord {
    PeerId peer = kNoPeer;
    bool ready = false;
  };
  enum class Transfer : std::uint8_t { kMaking, kReady, kCatchingUp };
  // Notes why the job cannot go on, the first time: see fatal().
  void fail_with(const AbortCause& cause, const std::string& text);
  // Nobody catches up any more: makes that a new view, and tells it to the servers.
  void publish_view(Effects& out);
  // The servers that are asked and told: those of the view, and a candidate that is included.
  std::vector<std::uint32_t> alive() const;

  const JobOptions job_;
  std::vector<ServerAt> servers_;
  JobView view_;
  std::optional<std::uint32_t> candidate_;  // the place that a spare is about to take
  Transfer transfer_ = Transfer::kMaking;   // how far the candidate is
  std::uint32_t last_generation_ = 0;
  std::optional<Error> fatal_;
  AbortCause fatal_cause_;
  bool ended_ = false;
};

}  // namespace ferry::ps
