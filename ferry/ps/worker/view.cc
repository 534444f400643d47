#include <algorithm>
#include <chrono>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/ps/worker/core_internal.h"

// Copies of shards, and going on without a server: see the design note.

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kVerdict{10};
constexpr std::chrono::seconds kIntroduction{10};

}  // namespace

ShardLink& WorkerCore::link_of(std::uint32_t shard, std::uint32_t copy) {
  std::uint32_t server = 0;
  while (shard - servers_[server].first_shard >= servers_[server].shards) ++server;
  const auto local = shard - servers_[server].first_shard;
  if (copy == 0) return shards_[servers_[server].first_link + local];
  const auto& second = servers_[second_of(job_, server)];
  return shards_[second.first_link + second.shards + local];
}

std::size_t WorkerCore::shown(const TensorLink& tensor, std::uint32_t run) {
  std::size_t index = run;
  const auto runs = tensor.info.runs.size();
  const auto readable = [&] { return tensor.parts[index].link->is_readable(); };
  while (!readable() && index + runs < tensor.parts.size()) index += runs;
  return index;
}

const ShardLink& WorkerCore::settled() const {
  const auto found = std::find_if(shards_.begin(), shards_.end(),
                                  [](const ShardLink& link) { return link.is_readable(); });
  return found == shards_.end() ? shards_.front() : *found;
}

bool WorkerCore::moved() const {
  return job_.replicas > 1 &&
         !everywhere([this](const ShardLink& link) { return link.view() <= view_; });
}

Status WorkerCore::see_view(Deadline deadline) {
  if (job_.replicas == 1) return {};
  const bool well = everywhere([this](const ShardLink& link) {
    return link.view() <= view_ && !link.is_aborted() && link.channel().alive();
  });
  return well ? Status() : learn_view(deadline);
}

Status WorkerCore::learn_view(Deadline deadline) {
  const auto answer = FERRY_TRY(scheduler_->call(Ask::kView, {}, deadline));
  bootstrap::Decoder in(answer);
  const auto view = FERRY_TRY(get_view(in, job_));
  FERRY_TRY(in.finish("the servers that are gone"));
  known_ = view;
  for (const auto server : view.gone)
    if (server != view.coming) go_without(server);
  behind_ = false;
  for (const auto& newcomer : view.newcomers) {
    const auto server = newcomer.server;
    const bool coming = server == view.coming;
    if (view.is_gone(server) && !coming) continue;
    const auto& at = servers_[server];
    if (at.turn != newcomer.turn || at.gone) {
      if (at.turn != newcomer.turn) go_without(server);
      if (!joined_ || posting_ > 0 || !meet(newcomer, deadline)) {
        behind_ = true;
        continue;
      }
    }
    for (std::uint32_t each = 0; each < at.shards * job_.replicas; ++each)
      shards_[at.first_link + each].set_catching_up(coming);
  }
  view_ = view.number;
  return {};
}

Status WorkerCore::look_around(Deadline deadline) {
  if (job_.replicas == 1) return {};
  while (behind_ || moved()) {
    FERRY_TRY(learn_view(deadline));
    if (!behind_) break;
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} cannot reach a server that has come", rank_);
    std::this_thread::sleep_for(kVerdict);
  }
  return {};
}

bool WorkerCore::meet(const Newcomer& newcomer, Deadline deadline) {
  const Posting posting(posting_);
  auto& at = servers_[newcomer.server];
  auto old = std::exchange(at, ServerLink());
  at.shards = old.shards;
  at.first_shard = old.first_shard;
  at.first_link = old.first_link;
  at.turn = newcomer.turn;
  old.control.reset();  // one that was met in part is asked on a connection of its own
  if (old.channel) past_.push_back(std::move(old));
  const auto limit = scaled(kIntroduction, options_.device);
  const auto met = introduce(newcomer, std::min(deadline, Deadline::after(limit)));
  if (met) return true;
  logger().info("worker {} did not meet server {}: {}", rank_, newcomer.server,
                met.error().message());
  at.gone = true;
  for (std::uint32_t each = 0; each < at.shards * job_.replicas; ++each)
    shards_[at.first_link + each].remove();
  return false;
}

// All that it would know of this worker if it had been there from the beginning.
Status WorkerCore::introduce(const Newcomer& newcomer, Deadline deadline) {
  const auto server = newcomer.server;
  FERRY_TRY(prepare_links(server));
  auto& at = servers_[server];
  for (std::uint32_t each = 0; each < at.shards * job_.replicas; ++each) {
    auto& link = shards_[at.first_link + each];
    link.start_after(newcomer.since);
    link.set_catching_up(true);
  }
  FERRY_TRY(attach(server, newcomer.place, deadline));
  for (auto& tensor : tensors_) {
    for (auto& part : tensor.parts) {
      if (part.link->server() != server) continue;
      part.mapped = nullptr;
      part.leased = false;
    }
    FERRY_TRY(open_parts(tensor, server, deadline));
    if (tensor.landing) FERRY_TRY(offer_landing(tensor, server, deadline));
  }
  for (auto& memory : memories_)
    memory.at[server] = FERRY_TRY(lend(server, memory.region, deadline));
  return {};
}

void WorkerCore::go_without(std::uint32_t server) {
  auto& at = servers_[server];
  if (at.gone) return;
  at.gone = true;
  for (std::uint32_t each = 0; each < at.shards * job_.replicas; ++each) {
    shards_[at.first_link + each].remove();
    shards_[at.first_link + each].set_catching_up(false);
  }
  ++stats_.servers_gone;
  logger().info("worker {} goes on without server {}", rank_, server);
  // Nothing that it sends may land any more. What it maps are words that nobody looks at; and the
  // user may still look at its memory.
  if (at.channel && !at.channel.capabilities().maps_peer) at.channel.close();
}

Status WorkerCore::outlive(std::uint32_t server, const Error& problem, Deadline deadline) {
  const auto& at = servers_[server];
  const auto turn = at.turn;
  const bool died = problem.code() == Code::kUnavailable || !at.channel.alive();
  if (job_.replicas == 1 || !died) return tl::unexpected<Error>(problem);
  for (;;) {
    FERRY_TRY(learn_view(deadline));
    if (at.gone || at.turn != turn) return {};
    if (deadline.expired()) return tl::unexpected<Error>(problem);
    std::this_thread::sleep_for(kVerdict);
  }
}

Status WorkerCore::see_server(std::uint32_t server, Deadline deadline) {
  const Posting posting(posting_);
  if (moved()) FERRY_TRY(learn_view(deadline));
  if (!servers_[server].gone) return {};
  return fail(Code::kUnavailable, "server {} was taken out of the job", server);
}

// A server that is silent keeps its channel for long, and is out of the job sooner.
Status WorkerCore::await(std::uint32_t server, fabric::Transfer transfer, Deadline deadline) {
  if (job_.replicas == 1) return transfer.wait();
  for (;;) {
    (void)data_->wait_until([&] { return transfer.ended() || moved(); }, deadline);
    if (transfer.ended() || deadline.expired()) return transfer.wait();
    const auto there = see_server(server, deadline);
    if (there) continue;
    transfer.cancel();
    const auto ended = transfer.wait();
    return ended ? ended : there;
  }
}

Result<std::optional<Bytes>> WorkerCore::ask_server(std::uint32_t server, Ask what,
                                                    const Bytes& wish, Deadline deadline) {
  auto& at = servers_[server];
  if (at.gone) return std::optional<Bytes>();
  RpcClient::Look look;
  if (job_.replicas > 1) look = [&] { return see_server(server, deadline); };
  const auto asked = [&] {
    // Nobody takes the place of the server, and its connection, while it is asked.
    const Posting posting(posting_);
    return at.control->ask(what, wish, deadline, look);
  }();
  if (asked && *asked) return std::optional(**asked);
  FERRY_TRY(outlive(server, asked ? asked->error() : asked.error(), deadline));
  return std::optional<Bytes>();
}

}  // namespace ferry::ps
