#include <algorithm>

#include "ferry/ps/scheduler/job_state_internal.h"

// What servers and workers ask of the scheduler.

namespace ferry::ps {

void JobState::on(const Asked& event) {
  const auto& question = event.question;
  const auto& request = event.request;
  const auto is = [&]<class... Kinds>(std::type_identity<Kinds>... /*kinds*/) {
    return (std::holds_alternative<Kinds>(request) || ...);
  };
  using std::type_identity;
  const bool leaves = is(type_identity<Leave>());
  if (phase_ == Phase::kFailed && (!leaves || not_written_))
    return answer(question, tl::unexpected<Error>(*failure_));
  const bool returns = is(type_identity<ServerBack>(), type_identity<WorkerBack>());
  if (phase_ == Phase::kReturning && !returns) return defer(event);
  const bool joins = is(type_identity<JoinServer>(), type_identity<JoinWorker>());
  if (phase_ == Phase::kOver && joins)
    return answer(question, fail(Code::kUnavailable, "the job is over"));
  answer(question, std::visit([&](const auto& each) { return handle(question, each); }, request));
}

// A worker that waits asks again and again, and this may take long.
void JobState::defer(const Asked& event) {
  const bool resent = std::holds_alternative<FindTensor>(event.request) ||
                      std::holds_alternative<WaitBarrier>(event.request);
  const auto former = std::find_if(deferred_.begin(), deferred_.end(), [&](const Asked& each) {
    return each.question.peer == event.question.peer &&
           each.request.index() == event.request.index();
  });
  if (!resent || former == deferred_.end()) return deferred_.push_back(event);
  out_.emplace_back(asked_again(former->question));
  *former = event;
}

// One that comes when the job has its servers waits until it is needed.
JobState::Reply JobState::handle(const Question& question, const JoinServer& request) {
  FERRY_TRY(servers_.check_shards(request.place));
  Spare server{question, request.place, request.token};
  if (!servers_.is_full()) {
    start<Arrival>(servers_, Arrival::Kind::kJoins, servers_.size(), std::move(server));
    return std::nullopt;
  }
  if (job_.replicas == 1)
    return fail(Code::kResourceExhausted, "the job has its {} servers already", job_.servers);
  if (job_.consistency != Consistency::kSync)
    return fail(Code::kUnimplemented,
                "the job has its {} servers already; another one can wait for the place of one "
                "that goes in synchronous jobs only",
                job_.servers);
  spares_.add(std::move(server));
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const ServerReady& /*request*/) {
  FERRY_TRY(servers_.set_ready(question.peer));
  if (phase_ != Phase::kForming || !servers_.all_ready()) return Bytes();
  phase_ = Phase::kRunning;
  tensors_.set_shards(servers_.shards());
  if (job_.replicas > 1) out_.emplace_back(servers_.tell_view());
  if (!snapshot_) return Bytes();
  start<Restoration>(tensors_, servers_, job_, *std::exchange(snapshot_, {}), question);
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const JoinWorker& request) {
  if (phase_ == Phase::kForming) {
    joining_.push_back({question, request});
    return std::nullopt;
  }
  Welcome welcome;
  welcome.rank = FERRY_TRY(workers_.join(question.peer, request.wanted, request.token));
  welcome.job = job_;
  welcome.servers = servers_.places();
  welcome.token = request.token;
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  put(out, welcome);
  return bytes;
}

JobState::Reply JobState::handle(const Question& question, const Enter& request) {
  workers_.set_host(FERRY_TRY(workers_.rank_of(question.peer)), request);
  return admit(question);
}

// One thing at a time: a candidate that catches up must not see a worker enter.
JobState::Reply JobState::admit(const Question& question) {
  const auto rank = FERRY_TRY(workers_.rank_of(question.peer));
  const auto& worker = workers_.at(rank);
  if (worker.member) {
    Bytes answer;
    bootstrap::Encoder(answer).u64(worker.since).u32(worker.attempt);
    return answer;
  }
  if (servers_.is_catching_up())
    entering_.push_back(question);
  else
    start<Admission>(workers_, servers_, job_.replicas > 1, rank, question);
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const CaughtUp& request) {
  const auto index = servers_.candidate();
  if (!index || servers_.find(question.peer) != index)
    return fail(Code::kFailedPrecondition, "this is no server that catches up");
  if (request.complete)
    servers_.end_catching_up(out_);
  else
    servers_.lose(*index, out_);
  return Bytes();
}

JobState::Reply JobState::handle(const Question& question, const InitTensor& request) {
  const auto rank = workers_.rank_of(question.peer).value_or(kNobody);
  if (tensors_.contains(request.info.name))
    return tensors_.init(question, rank, request.info, servers_.view().number, out_);
  if (phase_ == Phase::kForming) return fail(Code::kUnavailable, "the servers have not come yet");
  start<Creation>(tensors_, servers_, job_, Asked{question, request}, rank);
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const FindTensor& request) {
  return tensors_.find(question, request.name, servers_.view().number, out_);
}

JobState::Reply JobState::handle(const Question& /*question*/, const TensorThere& request) {
  tensors_.set_there(request.id, servers_.view().number, out_);
  return Bytes();
}

JobState::Reply JobState::handle(const Question& question, const TakeSnapshot& request) {
  start<SnapshotChange>(servers_, tensors_, question, request.folder);
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const WaitBarrier& request) {
  const auto rank = FERRY_TRY(workers_.rank_of(question.peer));
  if (workers_.passed_barrier(rank, request.number)) return Bytes();
  if (const auto former = workers_.wait_at_barrier(rank, question, request.number))
    out_.emplace_back(asked_again(*former));
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const Show& request) {
  switch (request.what) {
    case Show::kNeighbours:
      return workers_.neighbours(FERRY_TRY(workers_.rank_of(question.peer)));
    case Show::kTensors:
      return tensors_.names();
    case Show::kMembers:
      return workers_.members();
    case Show::kView:
      break;
  }
  // A worker that was believed to be dead learns it here.
  FERRY_TRY(workers_.rank_of(question.peer));
  Bytes answer;
  bootstrap::Encoder out(answer);
  put(out, servers_.view());
  return answer;
}

// The worker need not wait until servers are told.
JobState::Reply JobState::handle(const Question& question, const Leave& /*request*/) {
  remove_worker(FERRY_TRY(workers_.rank_of(question.peer)), false);
  return Bytes();
}

JobState::Reply JobState::handle(const Question& question, const ServerBack& request) {
  FERRY_TRY(servers_.check_return(request, phase_ == Phase::kReturning));
  start<Arrival>(servers_, Arrival::Kind::kReturns, request.index,
                 Spare{question, servers_.place(request.index)});
  return std::nullopt;
}

JobState::Reply JobState::handle(const Question& question, const WorkerBack& request) {
  FERRY_TRY(workers_.check_return(request, phase_ == Phase::kReturning));
  workers_.set_peer(request.rank, question.peer);
  out_.emplace_back(Log{Log::Level::kInfo, fmt::format("worker {} is back", request.rank)});
  return Bytes();
}

}  // namespace ferry::ps
