#include <algorithm>

#include "ferry/ps/server/worker_connections_internal.h"

namespace ferry::ps {

Result<WorkerConnections> WorkerConnections::open(fabric::Device& device, const JobOptions& job) {
  WorkerConnections all(device, job);
  all.pool_ = FERRY_TRY(device.allocate(job.pool_blocks * job.block_bytes));
  return all;
}

// A worker that has sent nothing yet may attach again. A worker whose rank was taken before gets
// slots of its own: the one before may still write to those of the pool, if it was only believed to
// be dead.
Result<ShardPlace> WorkerConnections::attach(std::uint32_t rank,
                                             std::shared_ptr<fabric::Channel> channel,
                                             const fabric::RemoteAt& words) {
  auto& current = current_[rank];
  if (current != nullptr && !current->is_frozen() && current->taken() > 0)
    return fail(Code::kAlreadyExists, "worker {} has attached already", rank);
  const auto share = slots_each(job_);
  auto ring = FERRY_TRY(device_->allocate(kRingEntries * kLine));
  fabric::Region own_slots;
  if (current != nullptr) own_slots = FERRY_TRY(device_->allocate(share * job_.block_bytes));
  const auto& pool = own_slots ? own_slots : pool_;
  ShardPlace place;
  place.ring = FERRY_TRY(device_->grant(ring, fabric::Rights::kReadWrite, *channel));
  place.pool = FERRY_TRY(device_->grant(pool, fabric::Rights::kReadWrite, *channel));
  place.first_slot = own_slots ? 0 : rank * share;
  const auto* slots = pool.data() + place.first_slot * job_.block_bytes;
  if (current != nullptr) former_.push_back(std::move(current));
  current = std::make_unique<WorkerConnection>(rank, std::move(channel), words, std::move(ring),
                                               slots, std::move(own_slots));
  return place;
}

bool WorkerConnections::has_work() const {
  return std::any_of(current_.begin(), current_.end(),
                     [](const auto& each) { return each != nullptr && each->has_work(); });
}

void WorkerConnections::drop_former() {
  for (auto& each : former_) each->drop_channel();
}

}  // namespace ferry::ps
