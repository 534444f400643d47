#include <algorithm>
#include <array>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/ps/scheduler/core_internal.h"

// Servers that take the place of those that are gone: see the design note.

namespace ferry::ps {

// One that comes when the job has its servers waits until it is needed.
Result<std::optional<Bytes>> Scheduler::Core::join_server(const RpcServer::Question& question,
                                                          bootstrap::Decoder& in) {
  const auto place = FERRY_TRY(get_server(in));
  FERRY_TRY(in.finish("a server that joins"));
  if (job_.replicas > 1 && !servers_.empty() && servers_.front().place.shards != place.shards)
    return fail(Code::kInvalidArgument,
                "a server of {} shards in a job with {} replicas whose other servers have {}: all "
                "must have as many",
                place.shards, job_.replicas, servers_.front().place.shards);
  if (servers_.size() >= job_.servers) {
    if (job_.replicas == 1)
      return fail(Code::kResourceExhausted, "the job has its {} servers already", job_.servers);
    if (job_.consistency != Consistency::kSync)
      return fail(Code::kUnimplemented,
                  "the job has its {} servers already; another one can wait for the place of one "
                  "that goes in synchronous jobs only",
                  job_.servers);
    standby_.push_back({question, place});
    return std::optional<Bytes>();
  }
  ServerAt server{.peer = question.peer, .place = place};
  server.client =
      FERRY_TRY(RpcClient::connect(*asking_, place.control, Deadline::after(server_answers())));
  server.token = FERRY_TRY(random_token());
  servers_.push_back(std::move(server));
  count();
  return answer_server(static_cast<std::uint32_t>(servers_.size() - 1), false);
}

Bytes Scheduler::Core::answer_server(std::uint32_t index, bool newcomer) const {
  std::uint32_t first = 0;
  for (std::uint32_t other = 0; other < index; ++other) first += servers_[other].place.shards;
  Bytes answer;
  bootstrap::Encoder out(answer);
  out.u32(index).u32(first).u8(newcomer ? 1 : 0);
  put(out, job_);
  out.u64(servers_[index].token);
  return answer;
}

Result<std::uint64_t> Scheduler::Core::random_token() {
  std::array<std::byte, 8> bytes{};
  FERRY_TRY(bootstrap::random_bytes(bytes));
  return bootstrap::Decoder(bytes).u64();
}

void Scheduler::Core::fill_place() {
  if (coming_ || standby_.empty() || view_.gone.empty() || failure_ || end_.is_set()) return;
  auto [question, place] = std::move(standby_.front());
  standby_.pop_front();
  auto client = RpcClient::connect(*asking_, place.control, Deadline::after(server_answers()));
  if (!client) return control_->reply(question, tl::unexpected<Error>(client.error()));
  const auto token = random_token();
  if (!token) return control_->reply(question, tl::unexpected<Error>(token.error()));
  coming_ = view_.gone.front();
  servers_[*coming_] = {.peer = question.peer,
                        .place = place,
                        .client = std::move(*client),
                        .ready = true,
                        .alive = false,
                        .token = *token};
  newcomer_ready_ = false;
  control_->reply(question, answer_server(*coming_, true));
}

// Everything goes on until a step that nobody can have ended: after it, shards copy themselves for
// the newcomer, which has all the steps from then on.
void Scheduler::Core::bring_up() {
  const bool told = catches_up();
  const bool whole = std::all_of(tensors_.begin(), tensors_.end(),
                                 [](const auto& each) { return each.second.there; });
  if (!coming_ || told || !newcomer_ready_ || !whole || failure_) return;
  const auto index = *coming_;
  auto& server = servers_[index];
  server.alive = true;
  for (const auto& [name, tensor] : tensors_) {
    Bytes wish;
    bootstrap::Encoder out(wish);
    put(out, tensor.info);
    const auto made = ask_server(server, Ask::kCreate, wish);
    if (made) continue;
    logger().warn("the server at {} cannot take a place: {}", server.place.data,
                  made.error().message());
    return server_gone(index);
  }
  const auto clock = hold(kNobody);
  if (clock && coming_ && !failure_) {
    std::erase_if(view_.newcomers, [&](const auto& each) { return each.server == index; });
    view_.newcomers.push_back({index, ++last_turn_, server.place, *clock + 1});
    view_.coming = index;
    ++view_.number;
    if (keep()) tell_view();
  }
  release({});
  if (coming_ && !failure_) let_catch_up();
}

// One that was told already says so.
void Scheduler::Core::let_catch_up() {
  const auto index = *coming_;
  Bytes sources;
  bootstrap::Encoder(sources)
      .string(servers_[first_of(job_, index)].place.control)
      .string(servers_[second_of(job_, index)].place.control);
  const auto told = ask_server(servers_[index], Ask::kCatchUp, sources);
  if (!told && told.error().code() != Code::kFailedPrecondition) server_gone(index);
}

Result<Bytes> Scheduler::Core::caught_up(std::uint64_t peer, bootstrap::Decoder& in) {
  const bool well = in.u8() != 0;
  FERRY_TRY(in.finish("whether a newcomer has its copies"));
  if (!coming_ || servers_[*coming_].peer != peer)
    return fail(Code::kFailedPrecondition, "this is no server that catches up");
  if (!well) {
    server_gone(*coming_);
    return Bytes();
  }
  const auto index = *std::exchange(coming_, std::nullopt);
  std::erase(view_.gone, index);
  logger().info("the server at {} has taken the place of server {}", servers_[index].place.data,
                index);
  settle_view();
  return Bytes();
}

// The newcomer is gone, too.
void Scheduler::Core::lose_newcomer() {
  coming_.reset();
  settle_view();
}

// A newcomer that catches up waits for a step. If there is nobody left to end one, it is in the way
// of those who want to enter.
void Scheduler::Core::give_way() {
  const bool any = std::any_of(workers_.begin(), workers_.end(), [](const WorkerAt& worker) {
    return worker.member && worker.state != State::kOut;
  });
  if (catches_up() && !entering_.empty() && !any) server_gone(view_.coming);
}

void Scheduler::Core::settle_view() {
  view_.coming = JobView::kNobody;
  ++view_.number;
  if (keep()) tell_view();
  count();
}

// Never in the middle of something else: a server may be found to be gone while a worker is taken
// out.
void Scheduler::Core::let_enter() {
  if (catches_up() || failure_) return;
  for (const auto& question : std::exchange(entering_, {})) {
    auto answer = enter(question);
    if (!answer)
      control_->reply(question, tl::unexpected<Error>(answer.error()));
    else if (*answer)
      control_->reply(question, **answer);
  }
}

}  // namespace ferry::ps
