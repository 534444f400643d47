#include <algorithm>

#include "ferry/ps/server/attached_workers_internal.h"

namespace ferry::ps {

Result<std::uint32_t> AttachedWorkers::get_rank(bootstrap::Decoder& in) const {
  const auto rank = in.u32();
  if (rank >= workers_.size())
    return fail(Code::kOutOfRange, "worker {} of {}", rank, workers_.size());
  return rank;
}

// A worker that ran out of time asks again on another connection, or its rank has another one: what
// came late on the former connection must not undo that.
Result<std::uint32_t> AttachedWorkers::get_attached(std::uint64_t peer,
                                                    bootstrap::Decoder& in) const {
  const auto rank = FERRY_TRY(get_rank(in));
  if (workers_[rank].peer != peer)
    return fail(Code::kFailedPrecondition, "worker {} has not attached on this connection", rank);
  return rank;
}

Result<Bytes> AttachedWorkers::attach(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_rank(in));
  fabric::DeviceId device;
  const auto id = in.raw(device.bytes.size());
  const auto words = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("a worker that attaches"));
  std::copy(id.begin(), id.end(), reinterpret_cast<std::byte*>(device.bytes.data()));
  auto& worker = workers_[rank];
  // Connections are numbered as they come.
  if (peer < worker.peer)
    return fail(Code::kFailedPrecondition, "worker {} has attached on a later connection", rank);
  worker.peer = peer;
  worker.channel = FERRY_TRY(channels_.find(device, Deadline::after(patience_)));
  ++worker.nonce;
  Bytes answer;
  bootstrap::Encoder out(answer);
  for (std::uint32_t each = 0; each < shards_.size(); ++each) {
    Result<ShardPlace> place;
    shards_.run(each, [&](ShardCore& shard) {
      place = shard.attach(rank, worker.channel, {words, std::uint64_t{each} * kWordsBytes});
    });
    put(out, FERRY_TRY(std::move(place)));
  }
  return answer;
}

Result<Bytes> AttachedWorkers::open_tensor(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto id = in.u32();
  FERRY_TRY(in.finish("a tensor to be opened"));
  Bytes answer;
  bootstrap::Encoder out(answer);
  for (const auto& at : FERRY_TRY(tensors_.find(id)))
    put(out, PartPlace{at.run, at.number, at.table, at.seats, workers_[rank].nonce});
  return answer;
}

Result<Bytes> AttachedWorkers::map_memory(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto region = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("memory of a worker"));
  const auto& channel = workers_[rank].channel;
  if (channel == nullptr)
    return fail(Code::kFailedPrecondition, "worker {} has not attached", rank);
  const auto mapped = channel->map(region);
  if (mapped) shards_.run_all([&](ShardCore& shard) { shard.add_memory(rank, *mapped); });
  Bytes answer;
  bootstrap::Encoder(answer).u8(mapped ? 1 : 0);
  return answer;
}

Result<Bytes> AttachedWorkers::add_landing(std::uint64_t peer, bootstrap::Decoder& in) {
  const auto rank = FERRY_TRY(get_attached(peer, in));
  const auto id = in.u32();
  const auto region = FERRY_TRY(get_region(in));
  FERRY_TRY(in.finish("memory for a tensor"));
  for (const auto& at : FERRY_TRY(tensors_.find(id)))
    shards_.run(at.shard, [&](ShardCore& shard) {
      shard.add_landing(rank, at.number, {region, at.offset});
    });
  return Bytes();
}

std::vector<std::uint32_t> AttachedWorkers::disconnected() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank)
    if (workers_[rank].channel != nullptr && !workers_[rank].channel->alive())
      ranks.push_back(rank);
  return ranks;
}

}  // namespace ferry::ps
