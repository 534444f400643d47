#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ferry/ps/server/shard_internal.h"

namespace ferry::ps {

// Which server of a job this is. Plain data, fixed when the server has joined.
struct ServerRole {
  JobOptions job;
  std::uint32_t index = 0;
  std::uint32_t shards = 0;       // its own, without second copies
  std::uint32_t first_shard = 0;  // of its own, counted over all servers
};

// The shards of a server: its own ones, then those that it has second copies of, as the server
// before it has them. Thread-safe, but for close().
class ShardSet {
 public:
  // The device outlives it.
  static Result<std::unique_ptr<ShardSet>> open(fabric::Device& device, const ServerRole& role,
                                                bool newcomer);

  const ServerRole& role() const { return role_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(shards_.size()); }
  // Which one has this shard of the job; none: another server.
  std::optional<std::uint32_t> local(std::uint32_t shard) const;
  void run(std::uint32_t local, const Shard::Command& command) { shards_[local]->run(command); }
  // Runs the command on one after the other.
  void run_all(const Shard::Command& command);
  void retire();
  // Ends their threads; what they own stays until close().
  void stop();
  void close() { shards_.clear(); }

 private:
  explicit ShardSet(const ServerRole& role) : role_(role) {}

  const ServerRole role_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace ferry::ps
