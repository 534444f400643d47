#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ferry/ps/server/shard_set_internal.h"

namespace ferry::ps {

// The tensors of the job of which a server has parts: makes these at their shards, drops them,
// saves and restores them. Belongs to the thread of the server's RpcServer, but for size().
class PartDirectory {
 public:
  using Functions = std::map<std::string, UpdateFunction>;
  // A part, at the shard that owns it.
  struct PartAt {
    std::uint32_t shard = 0;  // of this server
    std::uint32_t number = 0;
    std::uint32_t run = 0;
    std::uint64_t offset = 0;  // in bytes of the tensor
    Part* part = nullptr;      // only for what any thread may call, or within ShardSet::run()
    fabric::RemoteRegion table{};
    fabric::RemoteRegion seats{};
  };

  // All of them outlive it.
  PartDirectory(fabric::Device& device, ShardSet& shards, const Functions& functions)
      : device_(device), shards_(shards), functions_(functions) {}

  std::size_t size() const { return size_; }
  Result<std::vector<PartAt>> find(std::uint32_t id) const;
  Status create(const TensorInfo& info);
  void drop(std::uint32_t id);
  void drop_all_but(const std::set<std::uint32_t>& known);
  // Ends the leases of that worker, also while a shard waits for them.
  void clear_seats(std::uint32_t rank) const;
  // Writes the parts to a file of a snapshot, and says which step that is. `second`: those of which
  // this server has the second copy, too.
  Result<std::uint64_t> save(const std::string& path, std::uint32_t file, bool second);
  // Makes the tensor, and fills it from whatever files of a snapshot have a part of it.
  Status restore(const std::string& path, std::uint32_t files, const TensorInfo& info);

 private:
  struct Entry {
    TensorInfo info;
    std::vector<PartAt> parts;
  };
  // Makes the part of one run at its shard, and adds it to `parts`.
  Status create_part(const TensorInfo& info, std::uint32_t run, std::vector<PartAt>& parts);
  // The function that updates the tensor; null: its update needs none. kNotFound: this server was
  // not given it.
  Result<const UpdateFunction*> function_of(const TensorInfo& info) const;
  // Takes these parts from their shards.
  void remove(const std::vector<PartAt>& parts);
  // The clock that all shards have, unless one is in the middle of a step.
  Result<std::uint64_t> common_clock();

  fabric::Device& device_;
  ShardSet& shards_;
  const Functions& functions_;
  std::map<std::uint32_t, Entry> tensors_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace ferry::ps
