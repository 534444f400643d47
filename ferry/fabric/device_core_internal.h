#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ferry/bootstrap/endpoint.h"
#include "ferry/bootstrap/secret.h"
#include "ferry/fabric/block_table_internal.h"
#include "ferry/fabric/book_internal.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/control_internal.h"
#include "ferry/fabric/device.h"
#include "ferry/fabric/metered_registrar_internal.h"
#include "ferry/fabric/peer_counts_internal.h"
#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/reconnector_internal.h"
#include "ferry/fabric/regions_internal.h"
#include "ferry/fabric/session_context_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

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
  std::vector<RegistrationStats> registrations() const;

  // Peers.
  Result<Channel> connect(std::string_view endpoint, const ConnectOptions& options);
  Result<Channel> accept(Deadline deadline);
  std::vector<std::byte> introduction() const;
  void notify_loops();

  const Options options;
  const bootstrap::Secret secret;
  DeviceId id;
  Outbox::Total unsent{0};  // bytes of all control connections
  ChannelShared channels;
  BlockTable blocks;
  std::unique_ptr<GrantTable> grants;
  std::vector<std::unique_ptr<Loop>> loops;
  std::unique_ptr<memory::Pool> pool;
  ProviderContext context;
  std::vector<ProviderReport> reports;
  std::vector<std::unique_ptr<Provider>> providers;
  std::vector<std::unique_ptr<MeteredRegistrar>> registrars;  // of the providers, in their order
  std::unique_ptr<Regions> regions;
  Reconnector reconnector;
  Book book;
  std::unique_ptr<Control> control;
  std::string endpoint;
  PeerCounts peers;

 private:
  // Opens loops, memory, providers and the control plane, in this order.
  Status start();
  // Opens the providers that the options ask for. One that does not open is off; its report says
  // why.
  void open_providers();
  // What sessions may use of this device.
  SessionContext session_context();
  // Keeps a channel that a peer has opened until the program takes it. One too many is dropped.
  void accepted(std::shared_ptr<ChannelCore> core);
  // Whether the caller is a thread of this device, which cannot wait for its own end.
  bool on_own_thread() const;
  // Joins the peer at the endpoint, or finds the session that already did (`found`).
  Result<std::shared_ptr<Session>> session_to(std::string_view endpoint, Deadline deadline,
                                              bool& found);
  // Opens the lanes of a channel: one, or all of them if it is striped.
  Result<Channel> open_channel(const std::shared_ptr<Session>& session,
                               const ConnectOptions& options, Deadline deadline);
  // Where the best path does not come up although it should, tries the next one: a slower channel
  // is better than none.
  Result<std::shared_ptr<ChannelCore>> open_best_lane(const std::shared_ptr<Session>& session,
                                                      std::uint32_t lane, Deadline deadline);
  // The best provider that works to this peer, and why not a better one. Those that were tried and
  // `failed` are passed over.
  Result<std::pair<Provider*, std::string>> choose(
      const Session& session, const std::map<std::string, std::string>& failed) const;

  std::atomic<std::uint32_t> next_loop_{0};
  std::atomic<bool> closed_{false};
  Mutex lock_;
  std::deque<std::shared_ptr<ChannelCore>> accepted_ FERRY_GUARDED_BY(lock_);
  std::atomic<std::size_t> accepted_count_{0};
};

}  // namespace ferry::fabric
