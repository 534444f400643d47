#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ferry/fabric/book_internal.h"
#include "ferry/fabric/grant_table_internal.h"
#include "ferry/fabric/loop_internal.h"
#include "ferry/fabric/options.h"
#include "ferry/fabric/outbox_internal.h"
#include "ferry/fabric/peer_counts_internal.h"
#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric {

class ChannelCore;
class Session;
struct ChannelShared;

// Something went wrong with a session: it ends, or one of its lanes is connected anew.
struct SessionFailure {
  std::shared_ptr<Session> session;
  Error cause;
  const Lane* lane = nullptr;  // compared, never used: it may be gone
};

// What sessions may use of their device and of its control plane; outlives them. Everything here is
// thread-safe.
struct SessionContext {
  // Of the device.
  const Options* options = nullptr;
  const std::vector<std::unique_ptr<Provider>>* providers = nullptr;
  const std::vector<std::unique_ptr<Loop>>* loops = nullptr;
  GrantTable* grants = nullptr;
  Book* book = nullptr;
  Outbox::Total* unsent = nullptr;  // bytes of all control connections
  PeerCounts* peers = nullptr;
  std::function<Loop&()> next_loop;                          // for a new lane
  std::function<std::shared_ptr<ChannelShared>()> channels;  // null: the device is about to go
  // The peer has opened a channel.
  std::function<void(std::shared_ptr<ChannelCore>)> accepted;
  // The lane is to be connected anew, soon.
  std::function<void(const std::shared_ptr<Session>&, std::uint32_t lane)> reconnect;

  // Of the control plane.
  Loop* control = nullptr;
  // Which events of the session's socket the control loop looks for.
  std::function<Status(int socket, std::uint32_t epoll_events)> watch;
  // Seen to soon, on the control loop. Any thread, also one that holds a loop's token.
  std::function<void(SessionFailure)> report;

  Provider* provider(std::string_view name) const { return find_provider(*providers, name); }
};

}  // namespace ferry::fabric
