#include <algorithm>
#include <utility>

#include "ferry/ps/scheduler/servers_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {

void Servers::restore(const JobImage& image) {
  for (const auto& record : image.servers) {
    auto& server = servers_.emplace_back();
    static_cast<ServerRecord&>(server) = record;
    server.ready = true;
  }
  view_ = image.view;
  last_generation_ = image.last_generation;
  if (view_.coming >= job_.servers) return;
  candidate_ = view_.coming;
  transfer_ = Transfer::kCatchingUp;
}

void Servers::save(JobImage& image) const {
  image.servers.assign(servers_.begin(), servers_.end());
  // A candidate that nobody knows of yet begins anew with another scheduler.
  if (candidate_ && !is_catching_up()) image.servers[*candidate_].alive = false;
  image.view = view_;
  image.last_generation = last_generation_;
}

Status Servers::check_shards(const ServerPlace& place) const {
  if (job_.replicas == 1 || servers_.empty() || servers_.front().place.shards == place.shards)
    return {};
  return fail(Code::kInvalidArgument,
              "a server of {} shards in a job with {} replicas whose other servers have {}: all "
              "must have as many",
              place.shards, job_.replicas, servers_.front().place.shards);
}

void Servers::add(PeerId peer, const ServerPlace& place, std::uint64_t token) {
  auto& server = servers_.emplace_back();
  server.peer = peer;
  server.place = place;
  server.token = token;
}

Bytes Servers::place_answer(std::uint32_t index) const {
  std::uint32_t first = 0;
  for (std::uint32_t other = 0; other < index; ++other) first += servers_[other].place.shards;
  Bytes answer;
  bootstrap::Encoder out(answer);
  put_protocol_version(out);
  out.u32(index).u32(first).u8(candidate_ == index ? 1 : 0);
  put(out, job_);
  out.u64(servers_[index].token);
  return answer;
}

Status Servers::set_ready(PeerId peer) {
  if (candidate_ && servers_[*candidate_].peer == peer) {
    if (transfer_ == Transfer::kMaking) transfer_ = Transfer::kReady;
    return {};
  }
  const auto index = find(peer);
  if (!index || !servers_[*index].alive)
    return fail(Code::kUnavailable, "this server has no place in the job any more");
  servers_[*index].ready = true;
  return {};
}

bool Servers::all_ready() const {
  return is_full() && std::all_of(servers_.begin(), servers_.end(),
                                  [](const ServerAt& server) { return server.ready; });
}

std::size_t Servers::shards() const {
  std::size_t shards = 0;
  for (const auto& server : servers_) shards += server.place.shards;
  return shards;
}

std::vector<ServerPlace> Servers::places() const {
  std::vector<ServerPlace> places;
  for (const auto& server : servers_) places.push_back(server.place);
  return places;
}

std::optional<std::uint32_t> Servers::find(PeerId peer) const {
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (servers_[index].peer == peer) return index;
  return std::nullopt;
}

std::vector<std::uint32_t> Servers::alive() const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (servers_[index].alive) indices.push_back(index);
  return indices;
}

std::vector<std::uint32_t> Servers::in_view() const {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t index = 0; index < servers_.size(); ++index)
    if (!view_.is_gone(index)) indices.push_back(index);
  return indices;
}

AskServers Servers::ask(Ask what, const Bytes& body) const {
  AskServers effect{.what = what, .questions = {}};
  for (const auto index : alive()) effect.questions.push_back({index, body});
  return effect;
}

TellServers Servers::tell(Ask what, const Bytes& body) const { return {what, alive(), body}; }

// A server that does not answer is gone too, which is seen next.
TellServers Servers::tell_view() const {
  Bytes body;
  bootstrap::Encoder out(body);
  put(out, view_);
  return tell(Ask::kApplyView, body);
}

void Servers::lose(std::uint32_t index, Effects& out) {
  auto& server = servers_[index];
  if (!server.alive && candidate_ != index) return;
  server.alive = false;
  out.emplace_back(Disconnect{index});
  if (ended_) return;
  if (candidate_ == index) {
    candidate_.reset();
    return publish_view(out);
  }
  const auto& data = server.place.data;
  if (job_.replicas == 1 || !all_ready())
    return fail_with({AbortCause::Kind::kServerLost, index},
                     fmt::format("the server at {} is gone, and its blocks with it", data));
  for (const auto other : {first_of(job_, index), second_of(job_, index)})
    if (view_.is_gone(other))
      return fail_with(
          {AbortCause::Kind::kBothCopiesLost, other, static_cast<std::uint16_t>(index)},
          fmt::format("the servers at {} and {} are gone, and both copies of some blocks with "
                      "them; begin anew "
                      "from the last snapshot",
                      servers_[other].place.data, data));
  view_.gone.push_back(index);
  ++view_.number;
  out.emplace_back(
      Log{Log::Level::kWarning, fmt::format("server {} at {} is gone; server {} goes on with its "
                                            "blocks",
                                            index, data, second_of(job_, index))});
  out.emplace_back(tell_view());
}

void Servers::fail_with(const AbortCause& cause, const std::string& text) {
  if (fatal_) return;
  fatal_ = Error(Code::kAborted, text, 0, __FILE__, __LINE__);
  fatal_cause_ = cause;
}

void Servers::publish_view(Effects& out) {
  view_.coming = JobView::kNobody;
  ++view_.number;
  out.emplace_back(tell_view());
}

std::optional<std::uint32_t> Servers::free_place() const {
  if (candidate_ || view_.gone.empty()) return std::nullopt;
  return view_.gone.front();
}

void Servers::assign_spare(std::uint32_t place, const Spare& spare) {
  candidate_ = place;
  transfer_ = Transfer::kMaking;
  auto& server = servers_[place];
  server.peer = spare.question.peer;
  server.place = spare.place;
  server.token = spare.token;
  server.alive = false;
}

void Servers::start_catching_up(std::uint64_t since) {
  const auto index = *candidate_;
  std::erase_if(view_.newcomers, [&](const auto& each) { return each.server == index; });
  view_.newcomers.push_back({index, ++last_generation_, servers_[index].place, since});
  view_.coming = index;
  ++view_.number;
  transfer_ = Transfer::kCatchingUp;
}

AskServers Servers::ask_to_catch_up() const {
  Bytes sources;
  bootstrap::Encoder(sources)
      .string(servers_[first_of(job_, *candidate_)].place.control)
      .string(servers_[second_of(job_, *candidate_)].place.control);
  return {Ask::kCatchUp, {{*candidate_, sources}}};
}

void Servers::end_catching_up(Effects& out) {
  const auto index = *std::exchange(candidate_, std::nullopt);
  std::erase(view_.gone, index);
  out.emplace_back(
      Log{Log::Level::kInfo, fmt::format("the server at {} has taken the place of server {}",
                                         servers_[index].place.data, index)});
  publish_view(out);
}

Status Servers::check_return(const ServerBack& back, bool returning) const {
  if (back.index >= servers_.size() || servers_[back.index].token != back.token)
    return fail(Code::kPermissionDenied, "the scheduler does not know this server; start it anew");
  const auto& server = servers_[back.index];
  if (!server.alive || (server.peer != kNoPeer && !returning))
    return fail(Code::kUnavailable, "the job goes on without server {}", back.index);
  return {};
}

std::vector<std::uint32_t> Servers::absent() const {
  std::vector<std::uint32_t> indices;
  for (const auto index : alive())
    if (servers_[index].peer == kNoPeer) indices.push_back(index);
  return indices;
}

}  // namespace ferry::ps
