#include <algorithm>
#include <chrono>

#include "ferry/base/log.h"
#include "ferry/ps/scheduler/core_internal.h"
#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {
namespace {

constexpr std::chrono::minutes kDisk{10};
constexpr std::size_t kKept = 2;  // the last one, and the one before in case it is found broken

}  // namespace

Result<Bytes> Scheduler::Core::snapshot(bootstrap::Decoder& in) {
  const Snapshots snapshots{std::string(in.string(kMostPath))};
  FERRY_TRY(in.finish("a snapshot's folder"));
  const auto path = FERRY_TRY(snapshots.begin());
  std::vector<std::uint64_t> clocks;
  for (std::uint32_t index = 0; index < servers_.size(); ++index) {
    auto& server = servers_[index];
    if (view_.is_gone(index)) continue;
    Bytes where;
    bootstrap::Encoder(where).string(path).u32(static_cast<std::uint32_t>(clocks.size()));
    const auto saved = FERRY_TRY(server.client->call(Ask::kSave, where, Deadline::after(kDisk)));
    bootstrap::Decoder answer(saved);
    clocks.push_back(answer.u64());
  }
  if (std::any_of(clocks.begin(), clocks.end(), [&](auto one) { return one != clocks.front(); }))
    return fail(Code::kFailedPrecondition,
                "servers are in different steps; take snapshots while all workers wait at a "
                "barrier");
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors_)
    if (tensor.there) infos.push_back(tensor.info);
  FERRY_TRY(Snapshots::finish(path, infos, static_cast<std::uint32_t>(clocks.size())));
  snapshots.keep_newest(kKept);
  Bytes answer;
  bootstrap::Encoder(answer).string(path);
  return answer;
}

Status Scheduler::Core::find_snapshot() {
  auto found = Snapshots(options_.restore).newest();
  if (!found && found.error().code() == Code::kNotFound) {
    logger().warn("{}; the job begins without", found.error().message());
    return {};
  }
  to_restore_ = FERRY_TRY(std::move(found));
  return {};
}

Status Scheduler::Core::restore() {
  if (!to_restore_) return {};
  auto snapshot = *std::exchange(to_restore_, {});
  for (auto& info : snapshot.tensors) {
    info.id = ++last_tensor_;
    info.block_bytes = BlockPlacement::block_bytes(info.spec, job_.block_bytes);
    info.runs = placement_->place(FERRY_TRY(info.spec.bytes()), info.block_bytes);
    Bytes wish;
    bootstrap::Encoder out(wish);
    out.string(snapshot.path).u32(snapshot.servers);
    put(out, info);
    FERRY_TRY(ask_servers(Ask::kRestore, wish, kDisk));
    const auto name = info.name;
    tensors_.emplace(name, TensorAt{.info = std::move(info), .there = true});
  }
  count();
  return {};
}

}  // namespace ferry::ps
