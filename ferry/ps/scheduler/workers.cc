#include <algorithm>
#include <utility>

#include "ferry/ps/scheduler/workers_internal.h"

namespace ferry::ps {

Workers::Workers(const JobOptions& job) : job_(job), workers_(job.workers) {
  for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
    if (starts(job, rank)) continue;
    workers_[rank].state = WorkerState::kOut;
    workers_[rank].member = false;
  }
}

void Workers::restore(const JobImage& image) {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    static_cast<WorkerRecord&>(workers_[rank]) = image.workers[rank];
  last_attempt_ = image.last_attempt;
  dead_ = image.dead;
  left_ = image.left;
  departure_ = image.departure;
  admission_ = image.admission;
}

void Workers::save(JobImage& image) const {
  image.workers.assign(workers_.begin(), workers_.end());
  image.last_attempt = last_attempt_;
  image.dead = dead_;
  image.left = left_;
  image.departure = departure_;
  image.admission = admission_;
}

Result<std::uint32_t> Workers::choose_rank(std::uint32_t wanted) const {
  if (wanted != kNobody) {
    if (wanted >= job_.workers)
      return fail(Code::kOutOfRange, "there is no worker {}: the job has {}", wanted, job_.workers);
    if (workers_[wanted].state == WorkerState::kThere)
      return fail(Code::kAlreadyExists, "worker {} is there already", wanted);
    return wanted;
  }
  for (const auto state : {WorkerState::kExpected, WorkerState::kOut})
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
      if (workers_[rank].state == state) return rank;
  return fail(Code::kResourceExhausted,
              "all {} workers of the job are there; declare more when the scheduler is started",
              job_.workers);
}

Result<std::uint32_t> Workers::join(PeerId peer, std::uint32_t wanted, std::uint64_t token) {
  const auto rank = FERRY_TRY(choose_rank(wanted));
  WorkerAt worker;
  worker.peer = peer;
  worker.state = WorkerState::kThere;
  worker.member = workers_[rank].member;
  worker.token = token;
  workers_[rank] = std::move(worker);
  return rank;
}

Result<std::uint32_t> Workers::rank_of(PeerId peer) const {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].state == WorkerState::kThere && workers_[rank].peer == peer) return rank;
  return fail(Code::kFailedPrecondition, "this is no worker of the job; join first");
}

void Workers::set_host(std::uint32_t rank, const Enter& enter) {
  workers_[rank].host = enter.host;
  workers_[rank].device = enter.device;
  workers_[rank].neighbour = enter.neighbour;
}

// Who they are depends on the attempt alone, once the first step is applied: every change of them
// begins a step anew.
Bytes Workers::neighbours(std::uint32_t rank) const {
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u32(last_attempt_);
  for (std::uint32_t other = 0; other < workers_.size(); ++other) {
    const auto& each = workers_[other];
    const bool merges = each.state == WorkerState::kThere && each.member && !each.neighbour.empty();
    if (merges && each.host == workers_[rank].host)
      out.u32(other).string(each.device).string(each.neighbour);
  }
  return answer;
}

Bytes Workers::members() const {
  Bytes answer;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].state == WorkerState::kThere) bootstrap::Encoder(answer).u32(rank);
  return answer;
}

bool Workers::any_member() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker.member && worker.state != WorkerState::kOut;
  });
}

bool Workers::all_out() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker.state == WorkerState::kOut; });
}

std::uint32_t Workers::there() const {
  return static_cast<std::uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const auto& worker) { return worker.state == WorkerState::kThere; }));
}

bool Workers::passed_barrier(std::uint32_t rank, std::uint64_t number) const {
  return number == workers_[rank].barriers;
}

std::optional<Question> Workers::take_from_barrier(std::uint32_t rank) {
  const auto waits = barrier_.extract(rank);
  return waits ? std::optional(waits.mapped()) : std::nullopt;
}

std::optional<Question> Workers::wait_at_barrier(std::uint32_t rank, const Question& question,
                                                 std::uint64_t number) {
  const auto former = take_from_barrier(rank);
  workers_[rank].barrier = number;
  barrier_[rank] = question;
  return former;
}

std::vector<Question> Workers::release_barrier() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const auto& worker = workers_[rank];
    const bool awaited = worker.state != WorkerState::kOut && worker.member;
    if (awaited && !barrier_.contains(rank)) return {};
  }
  for (const auto& [rank, question] : barrier_) workers_[rank].barriers = workers_[rank].barrier;
  return take_waiting();
}

std::vector<Question> Workers::take_waiting() {
  std::vector<Question> questions;
  for (const auto& [rank, question] : std::exchange(barrier_, {})) questions.push_back(question);
  return questions;
}

std::optional<Question> Workers::remove(std::uint32_t rank, bool died, bool tell) {
  auto& worker = workers_[rank];
  const bool counted = std::exchange(worker.member, false);
  worker.state = WorkerState::kOut;
  worker.left = !died;
  ++(died ? dead_ : left_);
  if (tell) departure_ = DepartureRecord{.rank = rank, .counted = counted};
  return take_from_barrier(rank);
}

// Where hosts merge, the first step without the worker is begun anew: others may be waiting for it,
// or have left their gradients to it.
void Workers::decide_departure(std::uint64_t through, std::uint64_t folded) {
  departure_->decided = true;
  departure_->through = through;
  if (job_.merge ? !departure_->counted : folded <= through) return;
  departure_->attempt = ++last_attempt_;
  departure_->restarted = job_.merge ? through + 1 : folded;
}

void Workers::admit(std::uint32_t rank, std::uint64_t since) {
  auto& worker = workers_[rank];
  worker.since = since;
  worker.attempt = job_.merge ? ++last_attempt_ : last_attempt_;
  worker.member = true;
  admission_ = AdmissionRecord{rank, since, job_.merge ? worker.attempt : 0};
}

Status Workers::check_return(const WorkerBack& back, bool returning) const {
  if (back.rank >= workers_.size() || workers_[back.rank].token != back.token)
    return fail(Code::kPermissionDenied, "the scheduler does not know this worker; start it anew");
  const auto& worker = workers_[back.rank];
  if (worker.left) return fail(Code::kAlreadyExists, "worker {} has left", back.rank);
  if (worker.state != WorkerState::kThere || (!is_away(worker) && !returning))
    return fail(Code::kUnavailable, "the job goes on without worker {}", back.rank);
  return {};
}

bool Workers::any_away() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return is_away(worker); });
}

void Workers::mark_absent(const std::set<std::uint32_t>& ended, bool all) {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (is_away(workers_[rank]) && (all || ended.contains(rank))) absent_.push_back(rank);
}

std::optional<std::uint32_t> Workers::next_absent() {
  if (absent_.empty()) return std::nullopt;
  const auto rank = absent_.front();
  absent_.pop_front();
  return rank;
}

}  // namespace ferry::ps
