#include <mutex>

#include "ferry/base/log.h"
#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/session_internal.h"

namespace ferry::fabric {

namespace {

// The connecting end of one lane, up and known to be so at both ends.
Result<std::shared_ptr<Lane>> connect_lane(Session& session, std::shared_ptr<PeerSession> peer,
                                           std::uint32_t lane, Provider& provider, Loop& loop,
                                           Deadline deadline) {
  auto offer = session.offers().find(std::string(provider.name()));
  if (offer == session.offers().end())
    return fail(Code::kUnavailable, "peer {} does not offer {}", session.identity().endpoint,
                provider.name());
  auto call = [&](std::span<const std::byte> payload) {
    std::vector<std::byte> request;
    bootstrap::Encoder(request).u32(lane).string(provider.name()).bytes(payload);
    return session.request(FrameType::kOpenLane, request, deadline);
  };
  auto made =
      FERRY_TRY(provider.connect(std::move(peer), lane, offer->second, loop, call, deadline));
  session.send_lane(FrameType::kLaneReady, lane);
  return made;
}

}  // namespace

std::shared_ptr<ChannelCore> Session::core_of(std::uint32_t lane) {
  LockGuard<Mutex> guard(lock_);
  auto found = cores_.find(lane);
  return found == cores_.end() ? nullptr : found->second.lock();
}

Result<std::shared_ptr<ChannelCore>> Session::open_lane(std::uint32_t lane, Provider& provider,
                                                        const std::string& why, Deadline deadline) {
  LockGuard<Mutex> opening(opening_);
  if (auto core = core_of(lane); core != nullptr && core->lane().up()) return core;
  auto made = FERRY_TRY(
      connect_lane(*this, shared_from_this(), lane, provider, context_.next_loop(), deadline));
  auto core = std::make_shared<ChannelCore>(context_.channels(), shared_from_this(), lane, provider,
                                            why, made);
  {
    LockGuard<Mutex> guard(lock_);
    cores_[lane] = core;
  }
  auto status = check_alive();  // the session may have ended before it knew of the lane
  if (!status) {
    core->fail(status.error());
    return tl::unexpected<Error>(status.error());
  }
  return core;
}

Status Session::reconnect_lane(std::uint32_t lane, Deadline deadline) {
  // Another thread may open a lane to a peer that does not answer: lanes to others do not wait for
  // it.
  const std::unique_lock opening(opening_, std::try_to_lock);
  if (!opening)
    return fail(Code::kDeadlineExceeded, "another lane to peer {} is being opened",
                identity().endpoint);
  auto core = core_of(lane);
  if (core == nullptr || core->lane().up()) return {};
  auto made = FERRY_TRY(connect_lane(*this, shared_from_this(), lane, core->provider(),
                                     core->lane().loop(), deadline));
  core->replace(std::move(made));
  auto status = check_alive();
  if (!status) core->fail(status.error());
  return status;
}

// Whoever says so may hold the token of the lane's loop, and a channel that ends needs it: if its
// last user goes while it is looked for here, it must not end on that thread.
void Session::lane_broken(Lane& lane, Error cause) {
  context_.report({shared_from_this(), std::move(cause), &lane});
}

void Session::lane_broken_on_loop(const Lane* lane, const Error& cause) {
  std::map<std::uint32_t, std::weak_ptr<ChannelCore>> cores;
  {
    LockGuard<Mutex> guard(lock_);
    cores = cores_;
  }
  for (auto& [number, weak] : cores) {
    auto core = weak.lock();
    if (core == nullptr || &core->lane() != lane) continue;
    logger().info("lane {} to {} is connected anew: {}", number, identity().endpoint,
                  cause.to_string());
    if (connector_) {
      context_.reconnect(shared_from_this(), number);
    } else {
      send_lane(FrameType::kReconnectLane, number);
    }
  }
}

void Session::drop_lane(std::uint32_t lane) {
  bool last = false;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = cores_.find(lane);
    // A newer channel may have taken the number over.
    if (found == cores_.end() || !found->second.expired()) return;
    cores_.erase(found);
    last = cores_.empty() && accepted_.empty();
  }
  send_lane(FrameType::kCloseLane, lane);
  if (!last || !connector_) return;
  send(FrameType::kBye, 0, {});
  context_.report({shared_from_this(),
                   fail(Code::kCancelled, "the last channel of the session was closed").value()});
}

}  // namespace ferry::fabric
