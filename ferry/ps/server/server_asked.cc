#include <algorithm>
#include <set>

#include "ferry/ps/server/server_core_internal.h"

// What the scheduler and workers ask of a server. All of it runs on the thread of its RpcServer.

namespace ferry::ps {

Result<std::optional<Bytes>> Server::Core::asked(const RpcServer::Question& question,
                                                 bootstrap::Decoder& body) {
  if (!joined_) return fail(Code::kUnavailable, "this server is still joining; try again");
  switch (question.what) {
    case Ask::kCreate:
      heard_scheduler(question.peer);
      return FERRY_TRY(create(body));
    case Ask::kDrop:
      return FERRY_TRY(drop(body));
    case Ask::kKnown:
      return FERRY_TRY(drop_unknown(body));
    case Ask::kAttach:
      return FERRY_TRY(attach(question.peer, body));
    case Ask::kOpen:
      return FERRY_TRY(open_tensor(question.peer, body));
    case Ask::kGrant:
      return FERRY_TRY(map_memory(question.peer, body));
    case Ask::kSave:
      return FERRY_TRY(save(body));
    case Ask::kRestore:
      return FERRY_TRY(restore(body));
    case Ask::kLanding:
      return FERRY_TRY(add_landing(question.peer, body));
    case Ask::kFreeze:
      return FERRY_TRY(freeze(body));
    case Ask::kSettle:
      return FERRY_TRY(settle(body));
    case Ask::kHold:
      heard_scheduler(question.peer);
      return FERRY_TRY(hold(body));
    case Ask::kAdmit:
      return FERRY_TRY(admit(body));
    case Ask::kMoved:
      heard_scheduler(question.peer);
      return FERRY_TRY(move_on(body));
    case Ask::kImage:
      return FERRY_TRY(show_image(body));
    case Ask::kCatchUp:
      return FERRY_TRY(catch_up(body));
    case Ask::kStop:
      return FERRY_TRY(stop(body));
    default:
      return fail(Code::kUnimplemented, "a server does not answer question {}",
                  static_cast<std::uint32_t>(question.what));
  }
}

Result<std::uint32_t> Server::Core::get_rank(bootstrap::Decoder& in) const {
  const auto rank = in.u32();
  if (rank >= job_.workers) return fail(Code::kOutOfRange, "worker {} of {}", rank, job_.workers);
  return rank;
}

// A worker that ran out of time asks again on another connection, or its rank has another one: what
// came late on the former connection must not undo that.
Result<std::uint32_t> Server::Core::get_attached(std::uint64_t peer, bootstrap::Decoder& in) const {
  const auto rank = FERRY_TRY(get_rank(in));
  if (workers_[rank].asker != peer)
    return fail(Code::kFailedPrecondition, "worker {} has not attached on this connection", rank);
  return rank;
}

std::optional<std::uint32_t> Server::Core::local_shard(std::uint32_t shard) const {
  const auto count = options_.shards;
  if (shard >= first_shard_ && shard - first_shard_ < count) return shard - first_shard_;
  if (job_.replicas == 1 || shard / count != first_of(job_, index_)) return std::nullopt;
  return count + shard % count;
}

Status Server::Core::create_part(const TensorInfo& info, std::uint32_t run,
                                 std::vector<PartAt>& parts) {
  const UpdateFunction* function = nullptr;
  if (info.update.kind == UpdateKind::kFunction) {
    const auto found = options_.functions.find(info.update.function);
    if (found == options_.functions.end())
      return fail(Code::kNotFound,
                  "server {} has no update function '{}' for tensor '{}'; name it in "
                  "ServerOptions::functions",
                  index_, info.update.function, info.name);
    function = &found->second;
  }
  auto made = Part::make(*data_, info, run, job_, function);
  if (!made)
    return fail(Code::kResourceExhausted,
                "server {} has no memory for {} bytes of tensor '{}' (three versions): {}", index_,
                info.runs[run].bytes, info.name, made.error().message());
  PartAt at{.shard = *local_shard(info.runs[run].shard),
            .run = run,
            .offset = info.runs[run].offset,
            .part = made->get()};
  at.table = FERRY_TRY(data_->grant((*made)->table(), fabric::Rights::kRead));
  at.seats = FERRY_TRY(data_->grant((*made)->seats(), fabric::Rights::kReadWrite));
  auto& shard = *shards_[at.shard];
  shard.run([&] { at.number = shard.add(std::move(*made)); });
  parts.push_back(at);
  return {};
}

void Server::Core::remove(std::vector<PartAt>& parts) {
  for (const auto& at : parts) {
    auto& shard = *shards_[at.shard];
    shard.run([&] { shard.remove(at.number); });
  }
  parts.clear();
}

Result<Bytes> Server::Core::create(bootstrap::Decoder& in) {
  const auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor to be made"));
  FERRY_TRY(make(info));
  return Bytes();
}

Status Server::Core::make(const TensorInfo& info) {
  auto& parts = tensors_[info.id];
  for (std::uint32_t run = 0; run < info.runs.size(); ++run) {
    if (!local_shard(info.runs[run].shard)) continue;
    auto made = create_part(info, run, parts);
    if (made) continue;
    remove(parts);
    tensors_.erase(info.id);
    return made;
  }
  infos_[info.id] = info;
  tensor_count_ = tensors_.size();
  return {};
}

Result<Bytes> Server::Core::drop(bootstrap::Decoder& in) {
  const auto id = in.u32();
  FERRY_TRY(in.finish("a tensor to be dropped"));
  drop_tensor(id);
  return Bytes();
}

void Server::Core::drop_tensor(std::uint32_t id) {
  if (const auto found = tensors_.find(id); found != tensors_.end()) {
    remove(found->second);
    tensors_.erase(found);
    infos_.erase(id);
  }
  tensor_count_ = tensors_.size();
}

// What was made for a scheduler that did not live to tell anybody.
Result<Bytes> Server::Core::drop_unknown(bootstrap::Decoder& in) {
  std::set<std::uint32_t> known;
  while (in.remaining() > 0 && in.ok()) known.insert(in.u32());
  FERRY_TRY(in.finish("the tensors of the job"));
  std::vector<std::uint32_t> others;
  for (const auto& [id, parts] : tensors_)
    if (!known.contains(id)) others.push_back(id);
  for (const auto id : others) drop_tensor(id);
  Bytes ended;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].channel != nullptr && !workers_[rank].channel->alive())
      bootstrap::Encoder(ended).u32(rank);
  return ended;
}

Result<Bytes> Server::Core::attach(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_rank(in));
  fabric::DeviceId device;
  const auto id = in.raw(device.bytes.size());
  const auto words = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("a worker that attaches"));
  std::copy(id.begin(), id.end(), reinterpret_cast<std::byte*>(device.bytes.data()));
  // Connections are numbered as they come.
  if (peer < workers_[rank].asker)
    return fail(Code::kFailedPrecondition, "worker {} has attached on a later connection", rank);
  workers_[rank].asker = peer;
  const auto channel = FERRY_TRY(channel_of(device));
  workers_[rank].channel = channel;
  ++workers_[rank].nonce;
  Bytes answer;
  bootstrap::Encoder out(answer);
  for (std::uint32_t each = 0; each < shards_.size(); ++each) {
    auto& shard = *shards_[each];
    Result<ShardPlace> place;
    shard.run([&] {
      place = shard.attach(rank, channel, {words, std::uint64_t{each} * kWordsBytes});
    });
    put(out, FERRY_TRY(std::move(place)));
  }
  return answer;
}

Result<Bytes> Server::Core::open_tensor(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto id = in.u32();
  FERRY_TRY(in.finish("a tensor to be opened"));
  Bytes answer;
  bootstrap::Encoder out(answer);
  const auto found = tensors_.find(id);
  if (found == tensors_.end())
    return fail(Code::kNotFound, "server {} has no tensor {}", index_, id);
  for (const auto& at : found->second)
    put(out, PartPlace{at.run, at.number, at.table, at.seats, workers_[rank].nonce});
  return answer;
}

Result<Bytes> Server::Core::map_memory(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto region = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("memory of a worker"));
  const auto& channel = workers_[rank].channel;
  if (channel == nullptr)
    return fail(Code::kFailedPrecondition, "worker {} has not attached", rank);
  const auto mapped = channel->map(region);
  if (mapped)
    for (auto& shard : shards_) shard->run([&] { shard->add_memory(rank, *mapped); });
  Bytes answer;
  bootstrap::Encoder(answer).u8(mapped ? 1 : 0);
  return answer;
}

Result<Bytes> Server::Core::add_landing(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto id = in.u32();
  const auto region = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("memory for a tensor"));
  const auto found = tensors_.find(id);
  if (found == tensors_.end())
    return fail(Code::kNotFound, "server {} has no tensor {}", index_, id);
  for (const auto& at : found->second) {
    auto& shard = *shards_[at.shard];
    shard.run([&] { shard.add_landing(rank, at.number, {region, at.offset}); });
  }
  return Bytes();
}

Result<Bytes> Server::Core::freeze(bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_rank(in));
  FERRY_TRY(in.finish("a worker to be stopped"));
  // First, since a shard may be waiting for its leases.
  for (auto& [id, parts] : tensors_)
    for (auto& at : parts) at.part->clear_seat(rank);
  Shard::Frozen all;
  for (auto& shard : shards_) {
    shard->run([&] {
      const auto one = shard->freeze(rank);
      all.ended = std::max(all.ended, one.ended);
      all.folded = std::max(all.folded, one.folded);
    });
  }
  Bytes answer;
  bootstrap::Encoder(answer).u64(all.ended).u64(all.folded);
  return answer;
}

Result<Bytes> Server::Core::settle(bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_rank(in));
  const auto through = in.u64();
  const Anew anew{.attempt = in.u32(), .step = in.u64()};
  FERRY_TRY(in.finish("a worker to be settled"));
  for (auto& shard : shards_) shard->run([&] { shard->settle(rank, through, anew); });
  return Bytes();
}

Result<Bytes> Server::Core::hold(bootstrap::Decoder& in) {
  const auto rank = in.u32();
  FERRY_TRY(in.finish("a worker that enters"));
  std::uint64_t clock = 0;
  for (auto& shard : shards_) {
    shard->run([&] {
      shard->hold();
      clock = std::max(clock, shard->clock());
      if (rank < job_.workers) clock = std::max(clock, shard->last_of(rank));
    });
  }
  Bytes answer;
  bootstrap::Encoder(answer).u64(clock);
  return answer;
}

Result<Bytes> Server::Core::admit(bootstrap::Decoder& in) {
  const auto rank = in.u32();
  const auto since = in.u64();
  const auto attempt = in.u32();
  FERRY_TRY(in.finish("a worker to be admitted"));
  for (auto& shard : shards_) {
    shard->run([&] {
      if (rank < job_.workers)
        shard->admit(rank, since, attempt);
      else
        shard->release();
    });
  }
  return Bytes();
}

Result<Bytes> Server::Core::move_on(bootstrap::Decoder& in) {
  const auto view = FERRY_TRY(get_view(in, job_));
  FERRY_TRY(in.finish("the servers that are gone"));
  first_gone_ = view.is_gone(first_of(job_, index_));
  give_images(view);
  for (auto& shard : shards_) shard->run([&] { shard->move_on(view.number); });
  return Bytes();
}

Result<Bytes> Server::Core::stop(bootstrap::Decoder& in) {
  const bool failed = in.u8() != 0;
  FERRY_TRY(in.finish("the end of the job"));
  scheduler_->end();
  if (!failed) {
    end_.set({});
    return Bytes();
  }
  for (auto& shard : shards_) shard->run([&] { shard->abort(); });
  end_.set(fail(Code::kAborted, "too many workers have died; the job has ended"));
  return Bytes();
}

}  // namespace ferry::ps
