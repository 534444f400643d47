#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ferry/base/counters.h"
#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/block_table_internal.h"
#include "ferry/fabric/book_internal.h"
#include "ferry/fabric/control_internal.h"
#include "ferry/fabric/device.h"
#include "ferry/fabric/metered_registrar_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/reconnect_queue_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

// One region: where its memory came from, and its grants. Shared by the user's Region and by
// revocations under way; the memory goes back when the last of them lets go.
struct RegionRecord {
  std::shared_ptr<DeviceCore> device;
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

// The inside of a Device. Shared by the device's handle, its channels and its regions.
class DeviceCore : public std::enable_shared_from_this<DeviceCore> {
 public:
  static Result<std::shared_ptr<DeviceCore>> open(Options options);
  explicit DeviceCore(Options options, bootstrap::Secret secret);
  ~DeviceCore();
  void close();

  // Memory.
  Result<Region> allocate(std::size_t bytes, Rights rights);
  Result<Region> register_memory(std::span<std::byte> memory, Rights rights);
  Result<RemoteRegion> grant(const Region& region, Rights rights, std::uint32_t peer);
  Status revoke(const RemoteRegion& grant, Deadline deadline);
  std::vector<RegistrationStats> registrations() const;
  // Takes the region's grants away, waits until no access can still be running, and gives the
  // memory up.
  Status close_region(const std::shared_ptr<RegionRecord>& record, Deadline deadline);
  // The same without a deadline; memory of the pool is given up later, by nobody who waits.
  void release_region(const std::shared_ptr<RegionRecord>& record);
  void release(RegionRecord& record);

  // Peers.
  Result<Channel> connect(std::string_view endpoint, const ConnectOptions& options);
  Result<Channel> accept(Deadline deadline);
  void accepted(std::shared_ptr<ChannelCore> core);
  Provider* provider(std::string_view name) const;
  Loop& next_loop() { return *loops[loop_turn_.fetch_add(1) % loops.size()]; }
  std::vector<std::byte> introduction() const;
  // Connects a broken lane anew, soon. Any thread.
  void reconnect(const std::shared_ptr<Session>& session, std::uint32_t lane);
  void notify_loops();

  Status wait_flag(Loop& loop, const std::byte* word, std::uint64_t value, Deadline deadline,
                   WaitMode mode, const ChannelCore* channel);

  const Options options;
  const bootstrap::Secret secret;
  DeviceId id;
  Outbox::Total unsent{0};  // bytes of all control connections
  OperationPool operations;
  BlockTable blocks;
  std::unique_ptr<GrantTable> grants;
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<memory::Pool> pool;
  ProviderContext context;
  std::vector<ProviderReport> reports;
  std::vector<std::unique_ptr<Provider>> providers;
  std::vector<std::unique_ptr<MeteredRegistrar>> registrars;  // of the providers, in their order
  Book book;
  std::unique_ptr<Control> control;
  std::string endpoint;
  Counter peers_lost;
  Counter peers_refused;
  std::atomic<std::uint64_t> peers_silent{0};
  std::atomic<std::uint64_t> retired_bytes{0};
  std::atomic<std::uint64_t> channels{0};

 private:
  Status start();
  void open_providers();
  bool on_own_thread() const;
  // `found`: it was there already.
  Result<std::shared_ptr<Session>> session_to(std::string_view endpoint, Deadline deadline,
                                              bool& found);
  Result<Channel> open_channel(const std::shared_ptr<Session>& session,
                               const ConnectOptions& options, Deadline deadline);
  Result<std::shared_ptr<ChannelCore>> open_best_lane(const std::shared_ptr<Session>& session,
                                                      std::uint32_t lane, Deadline deadline);
  Result<std::pair<Provider*, std::string>> choose(
      const Session& session, const std::map<std::string, std::string>& failed) const;
  // Takes the grant away, whose key the caller has taken out of the record and counted; `quiet` is
  // called once no access can still be running, and the record lives until then.
  void revoke_grant(std::uint64_t key, const std::shared_ptr<RegionRecord>& record,
                    std::function<void()> quiet);
  void count_revoking(RegionRecord& record, std::size_t grants) FERRY_REQUIRES(record.lock);
  void revoke_all(const std::shared_ptr<RegionRecord>& record);
  using Reconnecting = ReconnectQueue<Session>;
  std::optional<Reconnecting::Try> next_to_reconnect();  // nothing: the device ends
  void reconnector();

  std::atomic<std::uint32_t> loop_turn_{0};
  std::atomic<bool> closed_{false};
  std::atomic<std::thread::id> reconnector_id_{};
  Mutex lock_;
  std::deque<std::shared_ptr<ChannelCore>> accepted_ FERRY_GUARDED_BY(lock_);
  std::atomic<std::size_t> accepted_count_{0};
  std::unordered_map<std::uint64_t, std::weak_ptr<RegionRecord>> granted_ FERRY_GUARDED_BY(lock_);
  // Connects broken lanes anew, since that blocks.
  Mutex reconnect_lock_;
  std::condition_variable_any reconnect_wake_;
  Reconnecting reconnects_ FERRY_GUARDED_BY(reconnect_lock_);
  bool reconnect_stop_ FERRY_GUARDED_BY(reconnect_lock_) = false;
  std::thread reconnector_ FERRY_GUARDED_BY(reconnect_lock_);
};

}  // namespace ferry::fabric
