#include <algorithm>
#include <chrono>
#include <set>

#include "ferry/ps/server/server_core_internal.h"

// What the scheduler and workers ask of a server. All of it runs on the thread of its RpcServer.

namespace ferry::ps {

Result<std::optional<Bytes>> Server::Core::asked(const RpcServer::Question& question,
                                                 bootstrap::Decoder& body) {
  if (!joined_) return fail(Code::kUnavailable, "this server is still joining; try again");
  // Only the scheduler asks these.
  if (question.what == Ask::kCreate || question.what == Ask::kHold ||
      question.what == Ask::kApplyView)
    note_scheduler(question.peer);
  return FERRY_TRY(answer(question, body));
}

Result<Bytes> Server::Core::answer(const RpcServer::Question& question, bootstrap::Decoder& in) {
  switch (question.what) {
    case Ask::kCreate:
      return create(in);
    case Ask::kDrop:
      return drop(in);
    case Ask::kKnown:
      return drop_unknown(in);
    case Ask::kAttach:
      return workers_->attach(question.peer, in);
    case Ask::kOpen:
      return workers_->open_tensor(question.peer, in);
    case Ask::kGrant:
      return workers_->map_memory(question.peer, in);
    case Ask::kLanding:
      return workers_->add_landing(question.peer, in);
    case Ask::kSave:
      return save(in);
    case Ask::kRestore:
      return restore(in);
    case Ask::kFreeze:
      return freeze(in);
    case Ask::kDepart:
      return commit_departure(in);
    case Ask::kHold:
      return hold(in);
    case Ask::kAdmit:
      return admit(in);
    case Ask::kApplyView:
      return apply_view(in);
    case Ask::kImage:
      return copies_->show(in);
    case Ask::kCatchUp:
      return catch_up(in);
    case Ask::kStop:
      return stop(in);
    default:
      return fail(Code::kUnimplemented, "a server does not answer question {}",
                  static_cast<std::uint32_t>(question.what));
  }
}

Result<Bytes> Server::Core::create(bootstrap::Decoder& in) {
  const auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor to be made"));
  FERRY_TRY(tensors_->create(info));
  return Bytes();
}

Result<Bytes> Server::Core::drop(bootstrap::Decoder& in) {
  const auto id = in.u32();
  FERRY_TRY(in.finish("a tensor to be dropped"));
  tensors_->drop(id);
  return Bytes();
}

Result<Bytes> Server::Core::drop_unknown(bootstrap::Decoder& in) {
  std::set<std::uint32_t> known;
  while (in.remaining() > 0 && in.ok()) known.insert(in.u32());
  FERRY_TRY(in.finish("the tensors of the job"));
  tensors_->drop_all_but(known);
  Bytes ended;
  for (const auto rank : workers_->disconnected()) bootstrap::Encoder(ended).u32(rank);
  return ended;
}

Result<Bytes> Server::Core::save(bootstrap::Decoder& in) {
  const auto path = std::string(in.string(kMostPath));
  const auto file = in.u32();
  FERRY_TRY(in.finish("a snapshot to be saved"));
  // A second copy is saved where the first one is gone.
  const auto clock = FERRY_TRY(tensors_->save(path, file, first_gone_));
  Bytes answer;
  bootstrap::Encoder(answer).u64(clock);
  return answer;
}

Result<Bytes> Server::Core::restore(bootstrap::Decoder& in) {
  const auto path = std::string(in.string(kMostPath));
  const auto files = in.u32();
  const auto info = FERRY_TRY(get_tensor(in));
  FERRY_TRY(in.finish("a tensor to be restored"));
  FERRY_TRY(tensors_->restore(path, files, info));
  return Bytes();
}

Result<Bytes> Server::Core::freeze(bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(workers_->get_rank(in));
  FERRY_TRY(in.finish("a worker to be stopped"));
  // First, since a shard may be waiting for its leases.
  tensors_->clear_seats(rank);
  ShardCore::Frozen all;
  shards_->run_all([&](ShardCore& shard) {
    const auto one = shard.freeze(rank);
    all.ended = std::max(all.ended, one.ended);
    all.folded = std::max(all.folded, one.folded);
  });
  Bytes answer;
  bootstrap::Encoder(answer).u64(all.ended).u64(all.folded);
  return answer;
}

Result<Bytes> Server::Core::commit_departure(bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(workers_->get_rank(in));
  const auto through = in.u64();
  const Restart restart{.attempt = in.u32(), .step = in.u64()};
  FERRY_TRY(in.finish("a worker to be settled"));
  shards_->run_all([&](ShardCore& shard) { shard.commit_departure(rank, through, restart); });
  return Bytes();
}

Result<Bytes> Server::Core::hold(bootstrap::Decoder& in) {
  const auto rank = in.u32();
  FERRY_TRY(in.finish("a worker that enters"));
  std::uint64_t clock = 0;
  shards_->run_all([&](ShardCore& shard) {
    shard.hold();
    clock = std::max(clock, shard.clock().now());
    if (rank < shards_->role().job.workers) clock = std::max(clock, shard.clock().last_of(rank));
  });
  Bytes answer;
  bootstrap::Encoder(answer).u64(clock);
  return answer;
}

Result<Bytes> Server::Core::admit(bootstrap::Decoder& in) {
  const auto rank = in.u32();
  const auto since = in.u64();
  const auto attempt = in.u32();
  FERRY_TRY(in.finish("a worker to be admitted"));
  shards_->run_all([&](ShardCore& shard) {
    if (rank < shards_->role().job.workers)
      shard.admit(rank, since, attempt);
    else
      shard.release();
  });
  return Bytes();
}

Result<Bytes> Server::Core::apply_view(bootstrap::Decoder& in) {
  const auto& role = shards_->role();
  const auto view = FERRY_TRY(get_view(in, role.job));
  FERRY_TRY(in.finish("the servers that are gone"));
  first_gone_ = view.is_gone(first_of(role.job, role.index));
  copies_->offer(view);
  shards_->run_all([&](ShardCore& shard) { shard.apply_view(view.number); });
  return Bytes();
}

Result<Bytes> Server::Core::catch_up(bootstrap::Decoder& in) {
  const auto first = std::string(in.string(kMostName));
  const auto second = std::string(in.string(kMostName));
  FERRY_TRY(in.finish("where the copies are"));
  FERRY_TRY(
      copies_->catch_up(first, second, [this](Status copied) { caught_up(std::move(copied)); }));
  return Bytes();
}

void Server::Core::caught_up(Status copied) {
  Bytes outcome;
  bootstrap::Encoder(outcome).u8(copied ? 1 : 0);
  const auto told =
      scheduler_->call(Ask::kCaughtUp, outcome, Deadline::after(std::chrono::minutes(1)));
  if (!copied) end_.set(std::move(copied));
  if (!told) end_.set(tl::unexpected<Error>(told.error()));
}

Result<Bytes> Server::Core::stop(bootstrap::Decoder& in) {
  const auto notice = get_stop(in);
  FERRY_TRY(in.finish("the end of the job"));
  scheduler_->end();
  if (!notice.failed) {
    end_.set({});
    return Bytes();
  }
  shards_->run_all([&](ShardCore& shard) { shard.abort(notice.cause); });
  end_.set(fail(Code::kAborted, "{}", notice.text));
  return Bytes();
}

}  // namespace ferry::ps
