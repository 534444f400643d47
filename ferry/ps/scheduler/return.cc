#include <algorithm>
#include <cerrno>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/bootstrap/socket.h"
#include "ferry/ps/scheduler/core_internal.h"

// A scheduler that goes on with the state of another: first its servers come back, then its
// workers; who does not is gone in the usual way. All of it runs on the thread of its RpcServer.

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kLookAgain{200};
constexpr std::chrono::milliseconds kKnock{500};

}  // namespace

Result<Bytes> Scheduler::Core::back_server(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto index = in.u32();
  const auto token = in.u64();
  FERRY_TRY(in.finish("a server that comes back"));
  if (index >= servers_.size() || servers_[index].token != token)
    return fail(Code::kPermissionDenied, "the scheduler does not know this server; start it anew");
  auto& server = servers_[index];
  if (!server.alive || (!is_away(server.peer) && !servers_away_))
    return fail(Code::kUnavailable, "the job goes on without server {}", index);
  // If it was back before: one connection at a time.
  server.client.reset();
  server.peer = away_server(index);
  server.client = FERRY_TRY(
      RpcClient::connect(*asking_, server.place.control, Deadline::after(server_answers())));
  server.peer = peer;
  logger().info("server {} is back", index);
  return Bytes();
}

Result<Bytes> Scheduler::Core::back_worker(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = in.u32();
  const auto token = in.u64();
  FERRY_TRY(in.finish("a worker that comes back"));
  if (rank >= workers_.size() || workers_[rank].token != token)
    return fail(Code::kPermissionDenied, "the scheduler does not know this worker; start it anew");
  auto& worker = workers_[rank];
  if (worker.left) return fail(Code::kAlreadyExists, "worker {} has left", rank);
  if (worker.state != State::kThere || (!is_away(worker.peer) && !servers_away_))
    return fail(Code::kUnavailable, "the job goes on without worker {}", rank);
  set_peer(worker, peer);
  logger().info("worker {} is back", rank);
  return Bytes();
}

void Scheduler::Core::set_peer(WorkerAt& worker, std::uint64_t peer) {
  for (auto& [name, tensor] : tensors_)
    if (tensor.creator == worker.peer) tensor.creator = peer;
  worker.peer = peer;
}

// Who was back and is gone again may come once more, until the job goes on.
void Scheduler::Core::away_again(std::uint64_t peer) {
  for (std::uint32_t index = 0; index < servers_.size(); ++index) {
    if (servers_[index].peer != peer) continue;
    servers_[index].peer = away_server(index);
    servers_[index].client.reset();
  }
  if (const auto rank = rank_of(peer)) set_peer(workers_[*rank], away_worker(*rank));
}

void Scheduler::Core::tick() {
  if (back_by_ && !failure_) look_who_is_back();
  if (servers_away_) return;
  look_at_leases();
  let_enter();
  fill_place();
  bring_up();
  give_way();
}

void Scheduler::Core::look_who_is_back() {
  const bool late = back_by_->expired();
  if (!late && !look_again_.expired()) return;
  look_again_ = Deadline::after(kLookAgain);
  if (!keep()) return;  // from now on the state is this scheduler's
  if (servers_away_) {
    if (!late) miss_servers();
    const bool all = std::none_of(servers_.begin(), servers_.end(), [](const ServerAt& server) {
      return server.alive && is_away(server.peer);
    });
    if (!all && !late && !failure_) return;
    go_on();
  }
  if (!failure_) miss_workers(late);
}

// Where nobody listens any more there is no server that could come back.
void Scheduler::Core::miss_servers() {
  for (std::uint32_t index = 0; index < servers_.size(); ++index) {
    if (!servers_[index].alive || !is_away(servers_[index].peer)) continue;
    const auto endpoint = bootstrap::Endpoint::parse(servers_[index].place.control);
    if (!endpoint) continue;
    const auto knocked = bootstrap::connect_tcp(*endpoint, Deadline::after(kKnock));
    if (!knocked && knocked.error().os_code() == ECONNREFUSED) server_gone(index);
  }
}

// Those whose channel to a server has ended, or all.
void Scheduler::Core::miss_workers(bool all) {
  bool away = false;
  const auto ended = tell_known();
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].state != State::kThere || !is_away(workers_[rank].peer)) continue;
    if (all || ended.contains(rank))
      take_out(rank, true);
    else
      away = true;
  }
  if (!away) back_by_.reset();
  (void)keep();
}

// Repeats what the scheduler before may have been in the middle of, and takes up what was asked
// meanwhile.
void Scheduler::Core::go_on() {
  servers_away_ = false;
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (is_away(servers_[index].peer)) server_gone(index);
  (void)tell_known();
  if (job_.replicas > 1) tell_view();
  if (verdict_ && verdict_->known)
    tell_verdict();
  else if (verdict_)
    settle(verdict_->rank, verdict_->counted);
  release(std::exchange(admission_, std::nullopt).value_or(Admission()));
  if (coming_ && !failure_) let_catch_up();
  for (const auto& worker : workers_)
    if (worker.state == State::kOut) forget_tensors_of(worker.peer);
  (void)keep();
  for (const auto& held : std::exchange(held_, {})) {
    bootstrap::Decoder in(held.body);
    control_->handle(held.question, in);
  }
  end_if_over();
}

// Whose channels have ended, somewhere.
std::set<std::uint32_t> Scheduler::Core::tell_known() {
  Bytes known;
  bootstrap::Encoder out(known);
  for (const auto& [name, tensor] : tensors_) out.u32(tensor.info.id);
  std::set<std::uint32_t> ended;
  for (auto& server : servers_) {
    if (!server.alive) continue;
    const auto answer = ask_server(server, Ask::kKnown, known);
    if (!answer) continue;
    bootstrap::Decoder in(*answer);
    while (in.remaining() > 0 && in.ok()) ended.insert(in.u32());
  }
  return ended;
}

}  // namespace ferry::ps
