#include <algorithm>
#include <chrono>

#include "ferry/ps/scheduler/core_internal.h"

// What servers and workers ask of the scheduler. All of it runs on the thread of its RpcServer.

namespace ferry::ps {
namespace {

// To the worker that is to bring the first values.
Bytes made(const TensorInfo& info, std::uint64_t view) {
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u8(1).u64(view);
  put(out, info);
  return answer;
}

}  // namespace

Result<std::optional<Bytes>> Scheduler::Core::asked(const RpcServer::Question& question,
                                                    bootstrap::Decoder& body) {
  if (failure_ && question.what != Ask::kLeave) return tl::unexpected<Error>(*failure_);
  const bool back = question.what == Ask::kBackServer || question.what == Ask::kBackWorker;
  if (servers_away_ && !back) {
    const auto rest = body.raw(body.remaining());
    held_.push_back({question, Bytes(rest.begin(), rest.end())});
    return std::optional<Bytes>();
  }
  const bool joins = question.what == Ask::kJoinServer || question.what == Ask::kJoinWorker;
  if (joins && end_.is_set()) return fail(Code::kUnavailable, "the job is over");
  switch (question.what) {
    case Ask::kBackServer:
      return FERRY_TRY(back_server(question.peer, body));
    case Ask::kBackWorker:
      return FERRY_TRY(back_worker(question.peer, body));
    case Ask::kJoinServer:
      return join_server(question, body);
    case Ask::kServerReady:
      return server_ready(question.peer);
    case Ask::kJoinWorker:
      return join_worker(question, body);
    case Ask::kEnter:
      FERRY_TRY(take_host(question.peer, body));
      return enter(question);
    case Ask::kNeighbours:
      return FERRY_TRY(neighbours(question.peer));
    case Ask::kCaughtUp:
      return FERRY_TRY(caught_up(question.peer, body));
    case Ask::kInit:
      return init(question, body);
    case Ask::kFind:
      return find(question, body);
    case Ask::kThere:
      return FERRY_TRY(tensor_there(body));
    case Ask::kNames:
      return FERRY_TRY(names());
    case Ask::kSnapshot:
      return FERRY_TRY(snapshot(body));
    case Ask::kBarrier:
      return barrier(question, body);
    case Ask::kView: {
      // A worker that was believed to be dead learns it here.
      FERRY_TRY(rank_of(question.peer));
      Bytes answer;
      bootstrap::Encoder out(answer);
      put(out, view_);
      return answer;
    }
    case Ask::kMembers:
      return FERRY_TRY(members());
    case Ask::kLeave: {
      const auto rank = FERRY_TRY(rank_of(question.peer));
      workers_[rank].state = State::kOut;
      workers_[rank].left = true;
      verdict_ = Verdict{.rank = rank, .counted = std::exchange(workers_[rank].member, false)};
      control_->reply(question, Bytes());
      take_out(rank, false);
      return std::optional<Bytes>();
    }
    default:
      return fail(Code::kUnimplemented, "the scheduler does not answer question {}",
                  static_cast<std::uint32_t>(question.what));
  }
}

bool Scheduler::Core::all_ready() const {
  return servers_.size() == job_.servers &&
         std::all_of(servers_.begin(), servers_.end(),
                     [](const ServerAt& server) { return server.ready; });
}

Result<std::optional<Bytes>> Scheduler::Core::server_ready(std::uint64_t peer) {
  if (coming_ && servers_[*coming_].peer == peer) {
    newcomer_ready_ = true;
    return std::optional<Bytes>(std::in_place);
  }
  const auto found = std::find_if(servers_.begin(), servers_.end(), [&](const ServerAt& server) {
    return server.peer == peer && server.alive;
  });
  if (found == servers_.end())
    return fail(Code::kUnavailable, "this server has no place in the job any more");
  found->ready = true;
  if (all_ready() && !placement_) {
    std::size_t shards = 0;
    for (const auto& server : servers_) shards += server.place.shards;
    placement_.emplace(shards);
    if (job_.replicas > 1) tell_view();
    if (auto restored = restore(); !restored) {
      fail_job(restored.error());
      return tl::unexpected<Error>(restored.error());
    }
    for (const auto& waiting : std::exchange(joining_, {}))
      control_->reply(waiting.question, welcome(waiting.question.peer, waiting.wanted));
  }
  return std::optional<Bytes>(std::in_place);
}

Result<std::optional<Bytes>> Scheduler::Core::join_worker(const RpcServer::Question& question,
                                                          bootstrap::Decoder& in) {
  const auto wanted = in.u32();
  FERRY_TRY(in.finish("a worker that joins"));
  if (all_ready()) return FERRY_TRY(welcome(question.peer, wanted));
  joining_.push_back({question, wanted});
  return std::optional<Bytes>();
}

Result<std::uint32_t> Scheduler::Core::choose_rank(std::uint32_t wanted) const {
  if (wanted != ~0U) {
    if (wanted >= job_.workers)
      return fail(Code::kOutOfRange, "there is no worker {}: the job has {}", wanted, job_.workers);
    if (workers_[wanted].state == State::kThere)
      return fail(Code::kAlreadyExists, "worker {} is there already", wanted);
    return wanted;
  }
  for (const auto state : {State::kExpected, State::kOut})
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
      if (workers_[rank].state == state) return rank;
  return fail(Code::kResourceExhausted,
              "all {} workers of the job are there; declare more when the scheduler is started",
              job_.workers);
}

Result<Bytes> Scheduler::Core::welcome(std::uint64_t peer, std::uint32_t wanted) {
  Welcome answer;
  answer.rank = FERRY_TRY(choose_rank(wanted));
  answer.job = job_;
  answer.token = FERRY_TRY(random_token());
  for (const auto& server : servers_) answer.servers.push_back(server.place);
  auto& worker = workers_[answer.rank];
  worker = {.peer = peer, .state = State::kThere, .member = worker.member, .token = answer.token};
  count();
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  put(out, answer);
  return bytes;
}

// One that joins late, or comes back, is part of the first step that no shard can have applied. One
// thing at a time: servers that catch up must not see it.
Result<std::optional<Bytes>> Scheduler::Core::enter(const RpcServer::Question& question) {
  const auto rank = FERRY_TRY(rank_of(question.peer));
  if (catches_up() && !workers_[rank].member) {
    entering_.push_back(question);
    return std::optional<Bytes>();
  }
  auto& worker = workers_[rank];
  if (!worker.member) {
    const auto held = hold(rank);
    if (held) {
      worker.since = *held;
      worker.attempt = job_.merge ? ++last_attempt_ : last_attempt_;
      admission_ = Admission{rank, worker.since, job_.merge ? worker.attempt : 0};
    }
    // If some were told and others not, the next scheduler must say the same.
    worker.member = held && keep();
    release(admission_.value_or(Admission()));
    admission_.reset();
    FERRY_TRY(held);
  }
  Bytes answer;
  bootstrap::Encoder(answer).u64(worker.since).u32(worker.attempt);
  return answer;
}

Status Scheduler::Core::take_host(std::uint64_t peer, bootstrap::Decoder& in) {
  auto& worker = workers_[FERRY_TRY(rank_of(peer))];
  worker.host = in.string(kMostName);
  worker.device = in.string(kMostName);
  worker.neighbour = in.string(kMostName);
  return in.finish("a worker that enters");
}

// Who they are depends on the attempt alone, once the first step is applied: every change of them
// begins a step anew.
Result<Bytes> Scheduler::Core::neighbours(std::uint64_t peer) const {
  const auto& own = workers_[FERRY_TRY(rank_of(peer))];
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u32(last_attempt_);
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const auto& each = workers_[rank];
    const bool there = each.state == State::kThere && each.member && !each.neighbour.empty();
    if (there && each.host == own.host) out.u32(rank).string(each.device).string(each.neighbour);
  }
  return answer;
}

Result<std::uint64_t> Scheduler::Core::hold(std::uint32_t rank) {
  Bytes who;
  bootstrap::Encoder(who).u32(rank);
  std::uint64_t clock = 0;
  for (std::uint32_t index = 0; index < servers_.size(); ++index) {
    auto& server = servers_[index];
    if (!server.alive) continue;
    const auto answer = ask_server(server, Ask::kHold, who);
    if (!answer) {
      if (job_.replicas == 1) return tl::unexpected<Error>(answer.error());
      server_gone(index);
      continue;
    }
    bootstrap::Decoder in(*answer);
    clock = std::max(clock, in.u64());
  }
  return clock;
}

void Scheduler::Core::release(const Admission& admission) {
  Bytes who;
  bootstrap::Encoder(who).u32(admission.rank).u64(admission.since).u32(admission.attempt);
  for (auto& server : servers_)
    if (server.alive) (void)ask_server(server, Ask::kAdmit, who);
}

Result<std::uint32_t> Scheduler::Core::rank_of(std::uint64_t peer) const {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].state == State::kThere && workers_[rank].peer == peer) return rank;
  return fail(Code::kFailedPrecondition, "this is no worker of the job; join first");
}

Result<std::optional<Bytes>> Scheduler::Core::init(const RpcServer::Question& question,
                                                   bootstrap::Decoder& in) {
  TensorInfo info;
  info.name = in.string(kMostName);
  info.spec = FERRY_TRY(get_spec(in));
  info.update = FERRY_TRY(get_update(in));
  FERRY_TRY(in.finish("a tensor"));
  const auto found = tensors_.find(info.name);
  if (found == tensors_.end()) return create(question, std::move(info));
  const auto& there = found->second.info;
  // Its answer was lost with the scheduler before this one.
  const bool again = !found->second.there && found->second.creator == question.peer;
  if (there.spec != info.spec || there.update != info.update)
    return fail(Code::kAlreadyExists, "tensor '{}' is {} with {}, and not {} with {}", info.name,
                there.spec.to_string(), there.update.to_string(), info.spec.to_string(),
                info.update.to_string());
  return again ? made(there, view_.number) : show(question, found->second);
}

std::optional<Bytes> Scheduler::Core::show(const RpcServer::Question& question, TensorAt& tensor) {
  if (!tensor.there) {
    // Who asks again does not listen to an answer to the former question any more.
    std::erase_if(tensor.waiting, [&](const auto& each) { return each.peer == question.peer; });
    tensor.waiting.push_back(question);
    return std::nullopt;
  }
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u8(0).u64(view_.number);
  put(out, tensor.info);
  return answer;
}

Result<std::optional<Bytes>> Scheduler::Core::create(const RpcServer::Question& question,
                                                     TensorInfo info) {
  const auto bytes = FERRY_TRY(info.spec.bytes());
  if (!placement_) return fail(Code::kUnavailable, "the servers have not come yet");
  info.id = ++last_tensor_;
  info.block_bytes = BlockPlacement::block_bytes(info.spec, job_.block_bytes);
  info.runs = placement_->place(bytes, info.block_bytes);
  Bytes wish;
  bootstrap::Encoder wanted(wish);
  put(wanted, info);
  if (const auto made = ask_servers(Ask::kCreate, wish, server_answers()); !made) {
    drop(info);
    return tl::unexpected<Error>(made.error());
  }
  auto answer = made(info, view_.number);
  const auto name = info.name;
  tensors_.emplace(name, TensorAt{std::move(info), question.peer});
  count();
  return answer;
}

void Scheduler::Core::drop(const TensorInfo& info) {
  Bytes id;
  bootstrap::Encoder(id).u32(info.id);
  for (auto& server : servers_)
    if (server.alive) (void)ask_server(server, Ask::kDrop, id);
  placement_->take_back(info.runs);
}

Result<Bytes> Scheduler::Core::tensor_there(bootstrap::Decoder& in) {
  const auto id = in.u32();
  FERRY_TRY(in.finish("a tensor that is there"));
  for (auto& [name, tensor] : tensors_) {
    if (tensor.info.id != id) continue;
    tensor.there = true;
    for (const auto& question : std::exchange(tensor.waiting, {}))
      control_->reply(question, *show(question, tensor));
  }
  return Bytes();
}

// Tensors whose first values do not come any more.
void Scheduler::Core::forget_tensors_of(std::uint64_t peer) {
  for (auto each = tensors_.begin(); each != tensors_.end();) {
    auto& tensor = each->second;
    if (tensor.there || tensor.creator != peer) {
      ++each;
      continue;
    }
    drop(tensor.info);
    for (const auto& question : tensor.waiting)
      control_->reply(question, fail(Code::kAborted,
                                     "the worker that made '{}' died before it had sent the first "
                                     "values; init() it again",
                                     each->first));
    each = tensors_.erase(each);
  }
}

Result<std::optional<Bytes>> Scheduler::Core::find(const RpcServer::Question& question,
                                                   bootstrap::Decoder& in) {
  const auto name = std::string(in.string(kMostName));
  FERRY_TRY(in.finish("a tensor's name"));
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    return fail(Code::kNotFound, "there is no tensor '{}'; init() makes it", name);
  return show(question, found->second);
}

Result<std::optional<Bytes>> Scheduler::Core::barrier(const RpcServer::Question& question,
                                                      bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(rank_of(question.peer));
  const auto number = in.u64();
  FERRY_TRY(in.finish("a barrier"));
  // Its answer was lost with the scheduler before this one.
  if (number == workers_[rank].barriers) return std::optional<Bytes>(std::in_place);
  workers_[rank].barrier = number;
  barrier_[rank] = question;
  look_at_barrier();
  return std::optional<Bytes>();
}

// Everybody who may still come is waited for, but for those who have not entered: they may wait for
// a step of those who wait here.
void Scheduler::Core::look_at_barrier() {
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].state != State::kOut && workers_[rank].member && !barrier_.contains(rank))
      return;
  for (const auto& [rank, question] : barrier_) workers_[rank].barriers = workers_[rank].barrier;
  for (const auto& [rank, question] : std::exchange(barrier_, {}))
    control_->reply(question, Bytes());
}

Result<Bytes> Scheduler::Core::names() const {
  Bytes answer;
  bootstrap::Encoder out(answer);
  for (const auto& [name, tensor] : tensors_)
    if (tensor.there) out.string(name);
  return answer;
}

Result<Bytes> Scheduler::Core::members() const {
  Bytes answer;
  bootstrap::Encoder out(answer);
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].state == State::kThere) out.u32(rank);
  return answer;
}

}  // namespace ferry::ps
