#include "ferry/ps/server/shard_set_internal.h"

namespace ferry::ps {

Result<std::unique_ptr<ShardSet>> ShardSet::open(fabric::Device& device, const ServerRole& role,
                                                 bool newcomer) {
  std::unique_ptr<ShardSet> set(new ShardSet(role));
  const bool alone = role.job.servers == 1 && role.shards == 1;
  for (std::uint32_t each = 0; each < role.shards * role.job.replicas; ++each)
    set->shards_.push_back(FERRY_TRY(Shard::open(device, role.job, alone, newcomer)));
  return set;
}

std::optional<std::uint32_t> ShardSet::local(std::uint32_t shard) const {
  const auto count = role_.shards;
  if (shard >= role_.first_shard && shard - role_.first_shard < count)
    return shard - role_.first_shard;
  if (role_.job.replicas == 1 || shard / count != first_of(role_.job, role_.index))
    return std::nullopt;
  return count + shard % count;
}

void ShardSet::run_all(const Shard::Command& command) {
  for (auto& shard : shards_) shard->run(command);
}

void ShardSet::retire() {
  for (auto& shard : shards_) shard->retire();
}

void ShardSet::stop() {
  for (auto& shard : shards_) shard->stop();
}

}  // namespace ferry::ps
