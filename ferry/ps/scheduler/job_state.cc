#include <algorithm>

#include "ferry/ps/scheduler/job_state_internal.h"

namespace ferry::ps {
namespace {

constexpr std::int64_t kLookAgainNs = 200'000'000;

Error job_error(Code code, std::string text) {
  return {code, std::move(text), 0, __FILE__, __LINE__};
}

Bytes stop_body(const StopNotice& notice) {
  Bytes body;
  bootstrap::Encoder out(body);
  put(out, notice);
  return body;
}

}  // namespace

JobState::JobState(Setup setup)
    : job_(setup.job),
      workers_(job_),
      servers_(job_),
      snapshot_(std::move(setup.snapshot)),
      writes_state_(setup.writes_state) {}

JobState::JobState(Setup setup, const JobImage& image, std::int64_t back_by_ns)
    : JobState(std::move(setup)) {
  snapshot_.reset();  // of what the job began with
  phase_ = Phase::kReturning;
  back_by_ns_ = back_by_ns;
  endpoint_ = image.endpoint;
  workers_.restore(image);
  servers_.restore(image);
  tensors_.set_shards(servers_.shards());
  tensors_.restore(image);
}

Effects JobState::take(const Event& event) {
  std::visit([&](const auto& each) { on(each); }, event);
  run();
  // A job that has not begun has nothing to lose, and a tick without effects has changed nothing.
  const bool idle = std::holds_alternative<Tick>(event) && out_.empty();
  if (writes_state_ && tensors_.has_shards() && !idle) {
    if (auto bytes = image(); bytes != written_) {
      written_ = bytes;
      out_.insert(out_.begin(), WriteState{std::move(bytes)});
    }
  }
  return std::exchange(out_, {});
}

SchedulerStats JobState::stats() const {
  return {.servers = servers_.size(),
          .servers_gone = static_cast<std::uint32_t>(servers_.view().gone.size()),
          .workers = workers_.there(),
          .left = workers_.left(),
          .dead = workers_.dead(),
          .tensors = tensors_.size()};
}

Bytes JobState::image() const {
  JobImage image;
  if (phase_ == Phase::kOver) image.phase = JobImage::Phase::kOver;
  if (failure_) image.phase = JobImage::Phase::kFailed;
  if (failure_) image.failure = failure_->message();
  image.endpoint = endpoint_;
  workers_.save(image);
  servers_.save(image);
  tensors_.save(image);
  return image.encode(job_);
}

void JobState::on(const Disconnected& event) {
  const auto peer = event.peer;
  const auto asked_by = [&](const auto& each) { return each.question.peer == peer; };
  std::erase_if(deferred_, asked_by);
  std::erase_if(joining_, asked_by);
  std::erase_if(entering_, [&](const auto& each) { return each.peer == peer; });
  spares_.forget(peer);
  tensors_.forget_waiting(peer);
  const auto rank = workers_.rank_of(peer);
  const auto server = servers_.find(peer);
  if (phase_ == Phase::kReturning) {  // it may come once more, until the job goes on
    if (rank) workers_.set_peer(*rank, kNoPeer);
    if (server) servers_.set_peer(*server, kNoPeer);
    if (server) out_.emplace_back(Disconnect{*server});
    return;
  }
  if (rank) remove_worker(*rank, true);
  if (server) servers_.lose(*server, out_);
}

void JobState::on(const ServerSilent& event) {
  if (phase_ != Phase::kReturning) servers_.lose(event.server, out_);
}

void JobState::on(const Tick& event) {
  if (!back_by_ns_ || phase_ == Phase::kFailed) return;
  const bool late = event.now_ns >= *back_by_ns_;
  if (!late && event.now_ns < next_look_ns_) return;
  next_look_ns_ = event.now_ns + kLookAgainNs;
  if (phase_ != Phase::kReturning)
    return start<RollCall>(workers_, servers_, tensors_, late, false);
  const auto absent = servers_.absent();
  if (late || absent.empty()) return resume_job(late);
  Probe probe;
  for (const auto server : absent)
    probe.targets.push_back({server, servers_.place(server).control});
  out_.emplace_back(std::move(probe));
}

// Where nobody listens any more there is no server that could come back.
void JobState::on(const Probed& event) {
  if (phase_ != Phase::kReturning) return;
  for (const auto server : event.refused) servers_.lose(server, out_);
  if (servers_.absent().empty()) resume_job(false);
}

void JobState::on(const StateNotWritten& event) {
  writes_state_ = false;
  not_written_ = true;
  // What servers are told is the other scheduler's to say.
  fail_job(event.cause, {AbortCause::Kind::kStateNotWritten},
           event.superseded ? Tell::kNobody : Tell::kServers);
}

void JobState::end_change() {
  agenda_.pop_front();
  front_begun_ = false;
}

void JobState::run() {
  for (;;) {
    if (const auto& lost = servers_.fatal()) fail_job(*lost, servers_.fatal_cause());
    if (!agenda_.empty())
      if (const auto failure = agenda_.front()->fatal()) fail_job(*failure, {});
    if (agenda_.empty()) {
      if (!follow_up()) return;
    } else {
      if (front_begun_) return;
      front_begun_ = true;
      if (agenda_.front()->begin(out_) == Progress::kDone) end_change();
    }
  }
}

bool JobState::follow_up() {
  if (const auto rank = workers_.next_absent()) {
    remove_worker(*rank, true);
    return true;
  }
  if (phase_ == Phase::kReturning || phase_ == Phase::kForming) return false;
  if (!deferred_.empty()) {
    const auto asked = std::move(deferred_.front());
    deferred_.pop_front();
    on(asked);
    return true;
  }
  if (phase_ != Phase::kRunning) return false;
  for (const auto& question : workers_.release_barrier()) answer(question, Bytes());
  if (workers_.all_out()) {
    end_job();
    return true;
  }
  if (back_by_ns_ && !workers_.any_away()) back_by_ns_.reset();
  if (!joining_.empty()) {
    const auto [question, request] = joining_.front();
    joining_.pop_front();
    answer(question, handle(question, request));
    return true;
  }
  return follow_up_servers();
}

bool JobState::follow_up_servers() {
  if (!servers_.is_catching_up() && !entering_.empty()) {
    const auto question = entering_.front();
    entering_.pop_front();
    answer(question, admit(question));
  } else if (const auto place = servers_.free_place(); place && !spares_.empty()) {
    start<Arrival>(servers_, Arrival::Kind::kTakesPlace, *place, spares_.take_first());
  } else if (servers_.is_candidate_ready() && tensors_.all_there()) {
    start<StateTransfer>(servers_, tensors_, StateTransfer::Phase::kMaking);
  } else if (servers_.is_catching_up() && !entering_.empty() && !workers_.any_member()) {
    // The candidate waits for a step, and nobody is left to end one: it is in the way.
    servers_.lose(*servers_.candidate(), out_);
  } else {
    return false;
  }
  return true;
}

void JobState::remove_worker(std::uint32_t rank, bool died) {
  const bool goes_on = phase_ == Phase::kRunning;
  if (const auto waits = workers_.remove(rank, died, goes_on))
    answer(*waits, fail(Code::kFailedPrecondition, "worker {} is no worker any more", rank));
  const auto dead = workers_.dead();
  if (died)
    out_.emplace_back(Log{Log::Level::kWarning, fmt::format("worker {} is gone; {} of {} have died",
                                                            rank, dead, job_.workers)});
  if (died && dead > job_.most_dead)
    fail_job(
        job_error(Code::kAborted, fmt::format("{} workers have died, {} may; the job has ended",
                                              dead, job_.most_dead)),
        {AbortCause::Kind::kWorkersDied, dead});
  else if (goes_on)
    start<Departure>(workers_, servers_, tensors_);
}

void JobState::resume_job(bool late) {
  phase_ = Phase::kRunning;
  for (const auto server : servers_.absent()) servers_.lose(server, out_);
  for (std::uint32_t rank = 0; rank < job_.workers; ++rank) {
    if (workers_.at(rank).state != WorkerState::kOut) continue;
    (void)tensors_.forget(rank, out_);  // the roll call tells which are left
  }
  start<RollCall>(workers_, servers_, tensors_, late, job_.replicas > 1);
  if (workers_.departure()) start<Departure>(workers_, servers_, tensors_);
  start<Admission>(workers_, servers_, job_.replicas > 1);
  if (servers_.candidate())
    start<StateTransfer>(servers_, tensors_, StateTransfer::Phase::kStarting);
}

void JobState::fail_job(const Error& error, const AbortCause& cause, Tell tell) {
  if (phase_ == Phase::kFailed) return;
  phase_ = Phase::kFailed;
  failure_ = error;
  servers_.end();
  out_.emplace_back(Log{Log::Level::kError, error.message()});
  if (tell == Tell::kServers)
    out_.emplace_back(servers_.tell(
        Ask::kStop, stop_body({.failed = true, .cause = cause, .text = error.message()})));
  for (const auto& change : agenda_) change->abort(error, out_);
  agenda_.clear();
  front_begun_ = false;
  refuse_waiting(error);
  out_.emplace_back(EndJob{tl::unexpected<Error>(error)});
}

void JobState::end_job() {
  phase_ = Phase::kOver;
  servers_.end();
  out_.emplace_back(servers_.tell(Ask::kStop, stop_body({})));
  refuse_waiting(job_error(Code::kUnavailable, "the job is over"));
  out_.emplace_back(EndJob{});
}

void JobState::refuse_waiting(const Error& cause) {
  const auto refuse = [&](const std::vector<Question>& questions) {
    for (const auto& question : questions) answer(question, tl::unexpected<Error>(cause));
  };
  refuse(workers_.take_waiting());
  refuse(tensors_.take_waiting());
  refuse(spares_.take_questions());
  refuse({entering_.begin(), entering_.end()});
  entering_.clear();
  for (const auto& waiting : std::exchange(joining_, {})) refuse({waiting.question});
  for (const auto& waiting : std::exchange(deferred_, {})) refuse({waiting.question});
}

void JobState::answer(const Question& question, const Reply& reply) {
  if (!reply)
    out_.emplace_back(Answer{question, tl::unexpected<Error>(reply.error())});
  else if (*reply)
    out_.emplace_back(Answer{question, **reply});
}

}  // namespace ferry::ps
