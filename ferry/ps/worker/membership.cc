#include <chrono>
#include <thread>

#include "ferry/base/log.h"
#include "ferry/ps/worker/membership_internal.h"

// Which servers there are, and going on without one: see the design note.

namespace ferry::ps {
namespace {

constexpr std::chrono::milliseconds kAskView{10};
constexpr std::chrono::seconds kConnecting{10};

}  // namespace

void Membership::close() {
  for (auto& server : servers_) server.channel.close();
}

Status Membership::join(std::span<const ServerPlace> places, Deadline deadline) {
  servers_.resize(places.size());
  for (std::uint32_t each = 0; each < servers(); ++each) add_links(each, places[each].shards);
  if (context_.job.replicas > 1) FERRY_TRY(fetch_view(Newcomers::kLater, deadline));
  for (std::uint32_t each = 0; each < servers(); ++each) {
    // Those who take a place are connected afterwards.
    if (is_removed(each) || known_.newcomer(each) != nullptr) continue;
    FERRY_TRY(prepare_links(each));
    const auto attached = attach(each, places[each], deadline);
    if (!attached) FERRY_TRY(await_removal(each, attached.error(), Newcomers::kLater, deadline));
  }
  joined_ = true;
  return sync_view(deadline);
}

bool Membership::maps_memory() const {
  return std::any_of(servers_.begin(), servers_.end(), [](const ServerLink& server) {
    return server.channel && server.channel.capabilities().maps_peer;
  });
}

void Membership::add_links(std::uint32_t server, std::uint32_t shards) {
  auto& at = servers_[server];
  at.shards = shards;
  at.first_link = static_cast<std::uint32_t>(links_.size());
  at.first_shard = at.first_link / context_.job.replicas;
  for (std::uint32_t each = 0; each < shards * context_.job.replicas; ++each)
    links_.emplace_back(server);
}

Status Membership::prepare_links(std::uint32_t server) {
  auto& at = servers_[server];
  const auto count = at.shards * context_.job.replicas;
  at.words = FERRY_TRY(context_.data->allocate(count * kWordsBytes));
  for (std::uint32_t each = 0; each < count; ++each)
    links_[at.first_link + each] =
        ShardLink(server, at.channel, at.words.data() + each * kWordsBytes, context_.job);
  return {};
}

Status Membership::attach(std::uint32_t server, const ServerPlace& place, Deadline deadline) {
  auto& at = servers_[server];
  auto& data = *context_.data;
  at.endpoint = place.data;
  at.channel = FERRY_TRY(data.connect(place.data, {.deadline = deadline}));
  spin_.add(data, at.channel);
  context_.stats.spin = spin_.now();
  at.control = FERRY_TRY(RpcClient::connect(*context_.control, place.control, deadline));
  const auto words = FERRY_TRY(data.grant(at.words, fabric::Rights::kReadWrite, at.channel));
  Bytes wish;
  bootstrap::Encoder out(wish);
  const auto id = data.id();
  out.u32(context_.rank).raw(std::as_bytes(std::span(id.bytes)));
  put(out, words);
  const auto answer = FERRY_TRY(at.control->call(Ask::kAttach, wish, deadline));
  bootstrap::Decoder in(answer);
  for (std::uint32_t each = 0; each < at.shards * context_.job.replicas; ++each) {
    const auto shard = FERRY_TRY(get_shard_place(in));
    const auto mapped = at.channel.map(shard.pool);
    links_[at.first_link + each].attach(shard, mapped ? mapped->data() : nullptr);
  }
  return in.finish("a server's shards");
}

ShardLink& Membership::link_of(std::uint32_t shard, std::uint32_t copy) {
  std::uint32_t server = 0;
  while (shard - servers_[server].first_shard >= servers_[server].shards) ++server;
  const auto local = shard - servers_[server].first_shard;
  if (copy == 0) return links_[servers_[server].first_link + local];
  const auto& second = servers_[second_of(context_.job, server)];
  return links_[second.first_link + second.shards + local];
}

const ShardLink& Membership::reference_shard() const {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [](const ShardLink& link) { return link.is_readable(); });
  return found == links_.end() ? links_.front() : *found;
}

std::uint64_t Membership::newest_attempt() const {
  std::uint64_t newest = 0;
  for (const auto& link : links_)
    if (!link.is_removed() && !link.is_aborted()) newest = std::max(newest, link.attempt());
  return newest;
}

bool Membership::is_view_stale() const {
  return context_.job.replicas > 1 &&
         !everywhere([this](const ShardLink& link) { return link.view() <= view_; });
}

Status Membership::refresh_view(Newcomers newcomers, Deadline deadline) {
  if (context_.job.replicas == 1) return {};
  const bool well = everywhere(
      [this](const ShardLink& link) { return link.view() <= view_ && link.channel().alive(); });
  return well ? Status() : fetch_view(newcomers, deadline);
}

template <class Change>
void Membership::change_links(const ServerLink& server, Change change) {
  for (std::uint32_t each = 0; each < server.shards * context_.job.replicas; ++each)
    change(links_[server.first_link + each]);
}

Status Membership::fetch_view(Newcomers newcomers, Deadline deadline) {
  const auto answer = FERRY_TRY(context_.scheduler->call(Ask::kView, {}, deadline));
  bootstrap::Decoder in(answer);
  const auto view = FERRY_TRY(get_view(in, context_.job));
  FERRY_TRY(in.finish("the servers that are gone"));
  known_ = view;
  for (const auto server : view.gone)
    if (server != view.coming) remove_server(server);
  must_connect_ = false;
  for (const auto& newcomer : view.newcomers) {
    const auto server = newcomer.server;
    const bool catching_up = server == view.coming;
    if (view.is_gone(server) && !catching_up) continue;
    const auto& at = servers_[server];
    if (at.generation != newcomer.turn || at.removed) {
      if (at.generation != newcomer.turn) remove_server(server);
      const bool may_connect = joined_ && newcomers == Newcomers::kConnect;
      if (!may_connect || !connect_newcomer(newcomer, deadline)) {
        must_connect_ = true;
        continue;
      }
    }
    change_links(at, [&](ShardLink& link) { link.set_catching_up(catching_up); });
  }
  view_ = view.number;
  return {};
}

Status Membership::sync_view(Deadline deadline) {
  if (context_.job.replicas == 1) return {};
  while (must_connect_ || is_view_stale()) {
    FERRY_TRY(fetch_view(Newcomers::kConnect, deadline));
    if (!must_connect_) break;
    if (deadline.expired())
      return fail(Code::kDeadlineExceeded, "worker {} cannot reach a server that has come",
                  context_.rank);
    std::this_thread::sleep_for(kAskView);
  }
  return {};
}

bool Membership::connect_newcomer(const Newcomer& newcomer, Deadline deadline) {
  auto& at = servers_[newcomer.server];
  auto old = std::exchange(at, ServerLink());
  at.shards = old.shards;
  at.first_shard = old.first_shard;
  at.first_link = old.first_link;
  at.generation = newcomer.turn;
  old.control.reset();  // one that was connected in part is asked on a connection of its own
  if (old.channel) past_.push_back(std::move(old));
  const auto limit = scaled(kConnecting, context_.options.device);
  const auto met = attach_newcomer(newcomer, std::min(deadline, Deadline::after(limit)));
  if (met) return true;
  logger().info("worker {} did not connect to server {}: {}", context_.rank, newcomer.server,
                met.error().message());
  at.removed = true;
  change_links(at, [](ShardLink& link) { link.remove(); });
  return false;
}

Status Membership::attach_newcomer(const Newcomer& newcomer, Deadline deadline) {
  FERRY_TRY(prepare_links(newcomer.server));
  change_links(servers_[newcomer.server], [&](ShardLink& link) {
    link.start_after(newcomer.since);
    link.set_catching_up(true);
  });
  FERRY_TRY(attach(newcomer.server, newcomer.place, deadline));
  return register_with_(newcomer.server, deadline);
}

void Membership::remove_server(std::uint32_t server) {
  auto& at = servers_[server];
  if (at.removed) return;
  at.removed = true;
  change_links(at, [](ShardLink& link) {
    link.remove();
    link.set_catching_up(false);
  });
  ++context_.stats.servers_gone;
  logger().info("worker {} goes on without server {}", context_.rank, server);
  // Nothing that it sends may land any more. What it maps are words that nobody looks at; and the
  // user may still look at its memory.
  if (at.channel && !at.channel.capabilities().maps_peer) at.channel.close();
}

// What a shard says of the end comes first: when the job has ended all servers go, and the
// scheduler, whoever was lost.
Status Membership::check_job_goes_on() const {
  for (const auto& link : links_) {
    if (link.is_removed() || !link.is_aborted()) continue;
    const auto cause = AbortCause::from_word(link.attempt());
    return fail(Code::kAborted, "{}", cause.describe(context_.job, [this](std::uint32_t server) {
      return server < servers() ? servers_[server].endpoint : std::string();
    }));
  }
  for (const auto& link : links_)
    if (context_.job.replicas == 1 && !link.channel().alive())
      return fail(Code::kUnavailable, "the server at {} is gone", link.channel().peer_endpoint());
  return {};
}

Status Membership::await_removal(std::uint32_t server, const Error& problem, Newcomers newcomers,
                                 Deadline deadline) {
  const auto& at = servers_[server];
  const auto generation = at.generation;
  const bool died = problem.code() == Code::kUnavailable || !at.channel.alive();
  if (context_.job.replicas == 1 || !died) return tl::unexpected<Error>(problem);
  for (;;) {
    FERRY_TRY(fetch_view(newcomers, deadline));
    if (at.removed || at.generation != generation) return {};
    if (deadline.expired()) return tl::unexpected<Error>(problem);
    std::this_thread::sleep_for(kAskView);
  }
}

Status Membership::check_server(std::uint32_t server, Deadline deadline) {
  if (is_view_stale()) FERRY_TRY(fetch_view(Newcomers::kLater, deadline));
  if (!is_removed(server)) return {};
  return fail(Code::kUnavailable, "server {} was taken out of the job", server);
}

// A server that is silent keeps its channel for long, and is out of the job sooner.
Status Membership::await(std::uint32_t server, fabric::Transfer transfer, Deadline deadline) {
  if (context_.job.replicas == 1) return transfer.wait();
  for (;;) {
    (void)context_.data->wait_until([&] { return transfer.ended() || is_view_stale(); }, deadline);
    if (transfer.ended() || deadline.expired()) return transfer.wait();
    const auto there = check_server(server, deadline);
    if (there) continue;
    transfer.cancel();
    const auto ended = transfer.wait();
    return ended ? ended : there;
  }
}

// Nobody takes the place of the server, and its connection, while it is asked.
Result<std::optional<Bytes>> Membership::ask(std::uint32_t server, Ask what, const Bytes& wish,
                                             Deadline deadline) {
  if (is_removed(server)) return std::optional<Bytes>();
  RpcClient::Look look;
  if (context_.job.replicas > 1) look = [&] { return check_server(server, deadline); };
  const auto asked = servers_[server].control->ask(what, wish, deadline, look);
  if (asked && *asked) return std::optional(**asked);
  FERRY_TRY(
      await_removal(server, asked ? asked->error() : asked.error(), Newcomers::kLater, deadline));
  return std::optional<Bytes>();
}

}  // namespace ferry::ps
