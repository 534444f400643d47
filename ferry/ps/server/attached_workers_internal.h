#pragma once

#include <memory>
#include <vector>

#include "ferry/ps/server/data_channels_internal.h"
#include "ferry/ps/server/part_directory_internal.h"
#include "ferry/ps/server/shard_set_internal.h"

namespace ferry::ps {

// What workers ask of a server: to attach, and then for tensors and memory. Of one rank the worker
// that came last counts; what comes late on a connection of another one is refused. Belongs to the
// thread of the server's RpcServer.
class AttachedWorkers {
 public:
  // All of them outlive it. `patience`: how long a worker's data channel may be late.
  AttachedWorkers(DataChannels& channels, ShardSet& shards, PartDirectory& tensors, Nanos patience)
      : channels_(channels),
        shards_(shards),
        tensors_(tensors),
        patience_(patience),
        workers_(shards.role().job.workers) {}

  // Each answers one question; `peer` is the connection that it came on.
  Result<Bytes> attach(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> open_tensor(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> map_memory(std::uint64_t peer, bootstrap::Decoder& in);
  Result<Bytes> add_landing(std::uint64_t peer, bootstrap::Decoder& in);
  // Ranks whose data channel has ended.
  std::vector<std::uint32_t> disconnected() const;
  Result<std::uint32_t> get_rank(bootstrap::Decoder& in) const;

 private:
  struct Worker {
    std::shared_ptr<fabric::Channel> channel;
    std::uint16_t nonce = 0;
    std::uint64_t peer = 0;
  };
  // The rank of a worker that has attached, and asks on the same connection.
  Result<std::uint32_t> get_attached(std::uint64_t peer, bootstrap::Decoder& in) const;

  DataChannels& channels_;
  ShardSet& shards_;
  PartDirectory& tensors_;
  const Nanos patience_;
  std::vector<Worker> workers_;  // by rank
};

}  // namespace ferry::ps
