#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ferry/fabric/block_table_internal.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/metered_registrar_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/memory/pool.h"

namespace ferry::fabric {

class Regions;

// One region: where its memory came from, and its grants. Shared by the user's Region and by
// revocations under way; the memory goes back when the last of them lets go.
struct RegionRecord {
  std::shared_ptr<Regions> regions;  // null: not yet, or not any more, known to the device
  std::span<std::byte> bytes;
  memory::Block block;                           // the user's own memory: attached for this region
  std::optional<memory::Allocation> allocation;  // from the pool
  std::size_t block_offset = 0;
  Rights rights = Rights::kNone;
  Mutex lock;
  std::condition_variable_any quiet;  // no revocation is under way any more
  std::vector<std::uint64_t> grants FERRY_GUARDED_BY(lock);
  std::size_t revoking FERRY_GUARDED_BY(lock) = 0;  // grants that a peer may still be using
  bool released = false;  // by whoever has the last share, or closes the region

  bool wait_until_quiet(Deadline deadline);
  ~RegionRecord();
};
using RegionHandle = std::shared_ptr<RegionRecord>;

// The memory of a device that peers may be let at: makes regions, grants them, takes grants back,
// and gives memory up when no peer can touch it any more. Thread-safe, once the providers are open.
//
// Between calls: a key is either among the grants of its record, with its grant in the table, or
// counted in `revoking` until every provider has said that no access can still be running.
class Regions {
 public:
  // What the device has. `self` is a share in the device, which every region keeps.
  struct Owner {
    memory::Pool* pool = nullptr;
    BlockTable* blocks = nullptr;
    GrantTable* grants = nullptr;
    const std::vector<std::unique_ptr<Provider>>* providers = nullptr;
    // Of the providers, in their order.
    const std::vector<std::unique_ptr<MeteredRegistrar>>* registrars = nullptr;
    std::function<std::shared_ptr<Regions>()> self;
  };
  explicit Regions(Owner owner) : owner_(std::move(owner)) {}

  Result<RegionHandle> allocate(std::size_t bytes, Rights rights);
  Result<RegionHandle> register_memory(std::span<std::byte> memory, Rights rights);
  Result<RemoteRegion> grant(const RegionHandle& record, Rights rights, std::uint32_t peer);
  Status revoke(const RemoteRegion& grant, Deadline deadline);
  // Takes the region's grants away, waits until no access can still be running, and gives the
  // memory up.
  Status close(const RegionHandle& record, Deadline deadline);
  // The same without a deadline; memory of the pool is given up later, by nobody who waits.
  void release_later(const RegionHandle& record);
  // Gives the memory back; nobody can touch it any more.
  void release(RegionRecord& record);
  // Of regions whose grants are revoked while a peer may still touch them.
  std::uint64_t retired_bytes() const { return retired_bytes_.load(); }

 private:
  struct Countdown;
  // Takes the grant away, whose key the caller has taken out of the record and counted; `quiet` is
  // called once no access can still be running, and the record lives until then.
  void revoke_grant(std::uint64_t key, const RegionHandle& record, std::function<void()> quiet);
  void count_revoking(RegionRecord& record, std::size_t grants) FERRY_REQUIRES(record.lock);
  void revoke_all(const RegionHandle& record);
  void end_revocation(RegionRecord& record);

  const Owner owner_;
  std::atomic<std::uint64_t> retired_bytes_{0};
  Mutex lock_;
  std::unordered_map<std::uint64_t, std::weak_ptr<RegionRecord>> granted_ FERRY_GUARDED_BY(lock_);
};

}  // namespace ferry::fabric
