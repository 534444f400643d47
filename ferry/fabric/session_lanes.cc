#include <mutex>

#include "ferry/bootstrap/codec.h"
#include "ferry/fabric/session_lanes_internal.h"

namespace ferry::fabric {

Result<std::shared_ptr<Lane>> SessionLanes::connect(std::uint32_t lane, Provider& provider,
                                                    Loop& loop, Deadline deadline,
                                                    std::shared_ptr<PeerSession> self) {
  const auto& offers = connection_.offers();
  auto offer = offers.find(std::string(provider.name()));
  if (offer == offers.end())
    return fail(Code::kUnavailable, "peer {} does not offer {}", connection_.identity().endpoint,
                provider.name());
  auto call = [&](std::span<const std::byte> payload) {
    std::vector<std::byte> request;
    bootstrap::Encoder(request).u32(lane).string(provider.name()).bytes(payload);
    return connection_.request(FrameType::kOpenLane, request, deadline);
  };
  auto made =
      FERRY_TRY(provider.connect(std::move(self), lane, offer->second, loop, call, deadline));
  connection_.send_lane_frame(FrameType::kLaneReady, lane);
  return made;
}

Result<std::shared_ptr<ChannelCore>> SessionLanes::open(std::uint32_t lane, Provider& provider,
                                                        const std::string& why, Deadline deadline,
                                                        std::shared_ptr<PeerSession> self,
                                                        ChannelCore::Home home) {
  LockGuard<Mutex> opening(opening_);
  if (auto core = channel(lane); core != nullptr && core->lane().up()) return core;
  auto made = FERRY_TRY(connect(lane, provider, context_.next_loop(), deadline, std::move(self)));
  auto core = std::make_shared<ChannelCore>(std::move(home), lane, provider, why, std::move(made));
  {
    LockGuard<Mutex> guard(lock_);
    channels_[lane] = core;
  }
  auto status = connection_.check_alive();  // it may have ended before the lane was known
  if (!status) {
    core->fail(status.error());
    return tl::unexpected<Error>(status.error());
  }
  return core;
}

Status SessionLanes::reconnect(std::uint32_t lane, Deadline deadline,
                               std::shared_ptr<PeerSession> self) {
  // Another thread may open a lane to a peer that does not answer: lanes to others do not wait for
  // it.
  const std::unique_lock opening(opening_, std::try_to_lock);
  if (!opening)
    return fail(Code::kDeadlineExceeded, "another lane to peer {} is being opened",
                connection_.identity().endpoint);
  auto core = channel(lane);
  if (core == nullptr || core->lane().up()) return {};
  core->replace(
      FERRY_TRY(connect(lane, core->provider(), core->lane().loop(), deadline, std::move(self))));
  auto status = connection_.check_alive();
  if (!status) core->fail(status.error());
  return status;
}

Result<std::vector<std::byte>> SessionLanes::accept_on_loop(std::span<const std::byte> request,
                                                            std::shared_ptr<PeerSession> self) {
  bootstrap::Decoder in(request);
  auto lane = in.u32();
  auto name = in.string(kMaxNameInFrame);
  auto payload = in.bytes(bootstrap::kMaxPayload);
  FERRY_TRY(in.finish("a request for a lane"));
  if (lane >= context_.options->max_lanes_per_peer)
    return fail(Code::kResourceExhausted, "lane {} is over this device's limit of {} per peer",
                lane, context_.options->max_lanes_per_peer);
  auto* provider = context_.provider(name);
  if (provider == nullptr)
    return fail(Code::kUnavailable, "this device has no provider '{}'", name);
  auto accepted = FERRY_TRY(provider->accept(std::move(self), lane, payload, context_.next_loop()));
  std::shared_ptr<Lane> old;
  {
    LockGuard<Mutex> guard(lock_);
    auto& place = accepted_[lane];
    old = std::move(place.second);
    place = {provider, std::move(accepted.lane)};
  }
  if (old != nullptr) old->close(fail(Code::kAborted, "the peer opened this lane anew").value());
  // Before the answer: bytes of a write that the peer gave up must not land after those of a write
  // that it sends on the new lane.
  if (auto core = channel(lane); core != nullptr)
    core->lane().abandon(fail(Code::kUnavailable, "peer {} connects lane {} anew",
                              connection_.identity().endpoint, lane)
                             .value());
  return std::move(accepted.answer);
}

Status SessionLanes::ready_on_loop(std::uint32_t lane, ChannelCore::Home home) {
  if (home.shared == nullptr) return fail(Code::kCancelled, "the device was closed");
  auto core = channel(lane);
  std::pair<Provider*, std::shared_ptr<Lane>> ready{};
  {
    LockGuard<Mutex> guard(lock_);
    auto found = accepted_.find(lane);
    if (found == accepted_.end())
      return fail(Code::kInvalidArgument, "lane {} was never asked for", lane);
    ready = std::move(found->second);
    accepted_.erase(found);
  }
  if (core != nullptr) {
    core->replace(std::move(ready.second));
    return {};
  }
  core = std::make_shared<ChannelCore>(std::move(home), lane, *ready.first, "the peer chose it",
                                       std::move(ready.second));
  {
    LockGuard<Mutex> guard(lock_);
    channels_[lane] = core;
  }
  context_.accepted(std::move(core));
  return {};
}

std::shared_ptr<ChannelCore> SessionLanes::channel(std::uint32_t lane) {
  LockGuard<Mutex> guard(lock_);
  auto found = channels_.find(lane);
  return found == channels_.end() ? nullptr : found->second.lock();
}

std::map<std::uint32_t, std::weak_ptr<ChannelCore>> SessionLanes::channels() {
  LockGuard<Mutex> guard(lock_);
  return channels_;
}

std::optional<std::uint32_t> SessionLanes::number_of(const Lane* lane) {
  for (auto& [number, weak] : channels())
    if (auto core = weak.lock(); core != nullptr && &core->lane() == lane) return number;
  return std::nullopt;
}

bool SessionLanes::drop(std::uint32_t lane) {
  bool last = false;
  {
    LockGuard<Mutex> guard(lock_);
    auto found = channels_.find(lane);
    // A newer channel may have taken the number over.
    if (found == channels_.end() || !found->second.expired()) return false;
    channels_.erase(found);
    last = channels_.empty() && accepted_.empty();
  }
  connection_.send_lane_frame(FrameType::kCloseLane, lane);
  return last;
}

void SessionLanes::close_all(const Error& cause) {
  decltype(accepted_) accepted;
  {
    LockGuard<Mutex> guard(lock_);
    accepted.swap(accepted_);
  }
  for (auto& [number, weak] : channels())
    if (auto core = weak.lock()) core->fail(cause);
  for (auto& [number, entry] : accepted) entry.second->close(cause);
}

}  // namespace ferry::fabric
