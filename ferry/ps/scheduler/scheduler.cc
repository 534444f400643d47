#include "ferry/ps/scheduler.h"

#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/ps/scheduler/core_internal.h"

namespace ferry::ps {
Result<Scheduler> Scheduler::open(SchedulerOptions options) {
  return Scheduler(FERRY_TRY(Core::open(std::move(options))));
}
Scheduler::Scheduler(std::unique_ptr<Core> core) : core_(std::move(core)) {}
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;
Scheduler::~Scheduler() = default;
std::string Scheduler::endpoint() const { return core_->endpoint(); }
Status Scheduler::wait(Deadline deadline) { return core_->wait(deadline); }
SchedulerStats Scheduler::stats() const { return core_->stats(); }

Result<std::unique_ptr<Scheduler::Core>> Scheduler::Core::open(SchedulerOptions options) {
  FERRY_TRY(check_job(options.job));
  std::unique_ptr<Core> core(new Core());
  core->options_ = std::move(options);
  core->job_ = core->options_.job;
  core->workers_.resize(core->job_.workers);
  for (std::uint32_t rank = 0; rank < core->job_.workers; ++rank)
    if (!starts(core->job_, rank)) core->workers_[rank] = {.state = State::kOut, .member = false};
  if (!core->options_.state.empty()) FERRY_TRY(core->open_store());
  // One that goes on has no use for a snapshot.
  if (!core->options_.restore.empty() && core->endpoint_.empty()) FERRY_TRY(core->find_snapshot());
  auto control = control_options(core->options_.device);
  auto asking = control;
  if (core->job_.replicas > 1) asking.give_up = scaled(core->options_.lease, control);
  core->asking_.emplace(FERRY_TRY(fabric::Device::open(asking)));
  control.listen = core->options_.device.listen;
  const auto listen = FERRY_TRY(bootstrap::Endpoint::parse(control.listen));
  if (!core->endpoint_.empty() && listen.port == 0) control.listen = core->endpoint_;
  FERRY_TRY(RpcServer::open(control, *core, core->control_));
  return core;
}

SchedulerStats Scheduler::Core::stats() {
  LockGuard<Mutex> guard(lock_);
  return stats_;
}

void Scheduler::Core::count() {
  LockGuard<Mutex> guard(lock_);
  stats_.servers = static_cast<std::uint32_t>(servers_.size());
  stats_.servers_gone = static_cast<std::uint32_t>(view_.gone.size());
  stats_.tensors = static_cast<std::uint32_t>(tensors_.size());
  stats_.dead = dead_;
  stats_.left = left_;
  stats_.workers = 0;
  for (const auto& worker : workers_)
    if (worker.state == State::kThere) ++stats_.workers;
}

Result<Bytes> Scheduler::Core::ask_server(ServerAt& server, Ask what, const Bytes& body,
                                          std::optional<Nanos> patience) {
  if (server.client == nullptr)
    return fail(Code::kUnavailable, "the server at {} is not back yet", server.place.control);
  return server.client->call(what, body, Deadline::after(patience.value_or(server_answers())));
}

Status Scheduler::Core::ask_servers(Ask what, const Bytes& body, Nanos patience) {
  for (auto& server : servers_) {
    if (!server.alive) continue;
    const auto answer = ask_server(server, what, body, patience);
    if (answer) continue;
    const bool gone = answer.error().code() == Code::kUnavailable;
    if (job_.replicas == 1 || !gone) return tl::unexpected<Error>(answer.error());
  }
  return {};
}

// What the dead worker has ended somewhere counts everywhere; the rest counts nowhere. Where hosts
// merge, the first step without it is begun anew: others may be waiting for it, or have left their
// gradients to it.
void Scheduler::Core::settle(std::uint32_t rank, bool counted) {
  verdict_ = Verdict{.rank = rank, .counted = counted};
  if (!keep()) return;
  Bytes who;
  bootstrap::Encoder(who).u32(rank);
  std::uint64_t through = 0;
  std::uint64_t folded = 0;
  for (auto& server : servers_) {
    if (!server.alive) continue;
    const auto answer = ask_server(server, Ask::kFreeze, who);
    if (!answer) {
      logger().warn("server at {}: {}", server.place.control, answer.error().to_string());
      // It may still hear the dead worker. Before the others go on, nobody listens to it any more;
      // and nobody else has its blocks, if there is one copy.
      server_gone(static_cast<std::uint32_t>(&server - servers_.data()));
      continue;
    }
    bootstrap::Decoder in(*answer);
    through = std::max(through, in.u64());
    folded = std::max(folded, in.u64());
  }
  verdict_->known = true;
  verdict_->through = through;
  if (job_.merge ? counted : folded > through) {
    verdict_->attempt = ++last_attempt_;
    verdict_->anew = job_.merge ? through + 1 : folded;
  }
  // If some were told and others not, the next scheduler must say the same.
  if (keep()) tell_verdict();
}

void Scheduler::Core::tell_verdict() {
  Bytes verdict;
  bootstrap::Encoder(verdict)
      .u32(verdict_->rank)
      .u64(verdict_->through)
      .u32(verdict_->attempt)
      .u64(verdict_->anew);
  for (auto& server : servers_) {
    if (!server.alive) continue;
    const auto answer = ask_server(server, Ask::kSettle, verdict);
    if (!answer)
      logger().warn("server at {}: {}", server.place.control, answer.error().to_string());
  }
  verdict_.reset();
}

void Scheduler::Core::take_out(std::uint32_t rank, bool died) {
  const bool counted = std::exchange(workers_[rank].member, false) ||
                       (verdict_ && verdict_->rank == rank && verdict_->counted);
  workers_[rank].state = State::kOut;
  workers_[rank].left = !died;
  ++(died ? dead_ : left_);
  if (died) {
    logger().warn("worker {} is gone; {} of {} have died", rank, dead_, job_.workers);
  }
  barrier_.erase(rank);
  if (!died || dead_ <= job_.most_dead)
    settle(rank, counted);
  else
    fail_job(
        Error(Code::kAborted,
              fmt::format("{} workers have died, {} may; the job has ended", dead_, job_.most_dead),
              0, __FILE__, __LINE__));
  forget_tensors_of(workers_[rank].peer);
  look_at_barrier();
  count();
  end_if_over();
}

void Scheduler::Core::end_if_over() {
  const bool over = std::all_of(workers_.begin(), workers_.end(),
                                [](const auto& worker) { return worker.state == State::kOut; });
  if (!over) return;
  Bytes well;
  bootstrap::Encoder(well).u8(0);
  if (!failure_)
    for (auto& server : servers_)
      if (server.alive) (void)ask_server(server, Ask::kStop, well);
  over_ = true;
  dismiss(Error(Code::kUnavailable, "the job is over", 0, __FILE__, __LINE__));
  (void)keep();
  end_.set({});
}

// Whoever waits to take part.
void Scheduler::Core::dismiss(const Error& cause) {
  std::vector<RpcServer::Question> all = std::exchange(entering_, {});
  for (const auto& waiting : std::exchange(joining_, {})) all.push_back(waiting.question);
  for (const auto& waiting : std::exchange(standby_, {})) all.push_back(waiting.question);
  for (const auto& question : all) control_->reply(question, tl::unexpected<Error>(cause));
}

void Scheduler::Core::fail_job(const Error& cause) {
  if (failure_) return;
  failure_ = cause;
  logger().error("{}", cause.message());
  (void)keep();
  Bytes badly;
  bootstrap::Encoder(badly).u8(1);
  for (auto& server : servers_)
    if (server.alive) (void)ask_server(server, Ask::kStop, badly);
  for (const auto& [rank, question] : barrier_)
    control_->reply(question, tl::unexpected<Error>(cause));
  barrier_.clear();
  dismiss(cause);
  end_.set(tl::unexpected<Error>(cause));
}

void Scheduler::Core::gone(std::uint64_t peer) {
  std::erase_if(held_, [&](const Held& each) { return each.question.peer == peer; });
  if (servers_away_) return away_again(peer);
  std::erase_if(joining_, [&](const Waiting& each) { return each.question.peer == peer; });
  std::erase_if(standby_, [&](const Standby& each) { return each.question.peer == peer; });
  std::erase_if(entering_, [&](const auto& question) { return question.peer == peer; });
  if (const auto rank = rank_of(peer)) take_out(*rank, true);
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (servers_[index].peer == peer) server_gone(index);
  (void)keep();
}

// The lease of a server is the connection on which it is asked: whoever does not answer there for
// that long is out, though its other connections wait longer.
void Scheduler::Core::look_at_leases() {
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (servers_[index].client != nullptr && servers_[index].client->lost()) server_gone(index);
}

void Scheduler::Core::server_gone(std::uint32_t index) {
  if (!servers_[index].alive && coming_ != index) return;
  servers_[index].alive = false;
  servers_[index].client.reset();  // if it is there after all, it sees that it is not counted on
  if (end_.is_set()) return;
  if (coming_ == index) return lose_newcomer();
  const auto fails = [&](const std::string& text) {
    fail_job(Error(Code::kAborted, text, 0, __FILE__, __LINE__));
  };
  const auto& data = servers_[index].place.data;
  if (job_.replicas == 1 || !all_ready())
    return fails(fmt::format("the server at {} is gone, and its blocks with it", data));
  for (const auto other : {first_of(job_, index), second_of(job_, index)})
    if (view_.is_gone(other))
      return fails(fmt::format(
          "the servers at {} and {} are gone, and both copies of some blocks with them; begin anew "
          "from the last snapshot",
          servers_[other].place.data, data));
  go_without(index);
}

void Scheduler::Core::go_without(std::uint32_t index) {
  view_.gone.push_back(index);
  ++view_.number;
  logger().warn("server {} at {} is gone; server {} goes on with its blocks", index,
                servers_[index].place.data, second_of(job_, index));
  // The next scheduler must know what anybody was told.
  if (keep()) tell_view();
  count();
}

void Scheduler::Core::tell_view() {
  Bytes news;
  bootstrap::Encoder out(news);
  put(out, view_);
  // One that does not answer is gone too, which is seen next.
  for (auto& server : servers_)
    if (server.alive) (void)ask_server(server, Ask::kMoved, news);
}

}  // namespace ferry::ps
