#include <algorithm>
#include <iterator>

#include "ferry/base/log_limit.h"
#include "ferry/bootstrap/dial.h"
#include "ferry/fabric/channel_core_internal.h"
#include "ferry/fabric/device_core_internal.h"

namespace ferry::fabric {

namespace {
constexpr std::size_t kMaxUnaccepted = 4096;
// For a path that is not the last one left, where the deadline allows it.
constexpr auto kBetterPath = std::chrono::seconds(3);
constexpr auto kLastWords = std::chrono::milliseconds(100);
}  // namespace

Result<std::shared_ptr<Session>> DeviceCore::session_to(std::string_view endpoint_text,
                                                        Deadline deadline, bool& found) {
  auto target = FERRY_TRY(bootstrap::Endpoint::parse(endpoint_text));
  auto name = target.to_string();
  auto known = control->find(name);
  found = known != nullptr;
  if (found) return known;
  bootstrap::Hello mine;
  mine.device = id.bytes;
  auto number = control->next_number();
  mine.session = number;
  mine.blob = introduction();
  auto dialled = FERRY_TRY(bootstrap::dial(target, secret, mine, deadline));
  auto introduced = FERRY_TRY(Introduction::decode(dialled.joined.peer.blob));
  introduced.identity.endpoint = name;  // as dialled: the peer may listen on many addresses
  return control->add(number, std::move(dialled), std::move(introduced));
}

Result<std::pair<Provider*, std::string>> DeviceCore::choose(
    const Session& session, const std::map<std::string, std::string>& failed) const {
  std::string why;
  for (const auto& report : reports)
    if (!report.on) why += fmt::format("; not {}: {}", report.name, report.detail);
  std::string passed;
  for (const auto& provider : providers) {
    auto name = std::string(provider->name());
    auto offer = session.connection().offers().find(name);
    Status usable;
    if (auto tried = failed.find(name); tried != failed.end()) {
      usable = fail(Code::kUnavailable, "{}", tried->second);
    } else if (offer == session.connection().offers().end()) {
      usable = fail(Code::kUnavailable, "the peer does not offer it");
    } else {
      usable = provider->usable(session.identity(), offer->second);
    }
    if (usable)
      return std::pair(provider.get(), fmt::format("{} is the best path to {}{}{}", name,
                                                   session.identity().endpoint, passed, why));
    passed += fmt::format("; not {}: {}", name, usable.error().message());
  }
  return fail(Code::kUnavailable, "no common provider with {}{}{}", session.identity().endpoint,
              passed, why);
}

Result<Channel> DeviceCore::connect(std::string_view target, const ConnectOptions& given) {
  if (closed_.load()) return fail(Code::kCancelled, "the device was closed");
  auto limit = std::chrono::duration_cast<Nanos>(std::chrono::seconds(10) * options.patience);
  auto deadline = given.deadline.ns() != 0 ? given.deadline : Deadline::after(limit);
  for (;;) {
    bool found = false;
    auto session = FERRY_TRY(session_to(target, deadline, found));
    auto made = open_channel(session, given, deadline);
    if (made || !found || deadline.expired()) return made;
    // A session that was there already may be about to end; then a new one is worth a try.
    if (made.error().code() == Code::kUnavailable)
      control->loop().wait_until([&] { return !session->alive(); },
                                 std::min(deadline, Deadline::after(kLastWords)),
                                 WaitMode::kAdaptive);
    if (session->alive()) return made;
  }
}

Result<std::shared_ptr<ChannelCore>> DeviceCore::open_best_lane(
    const std::shared_ptr<Session>& session, std::uint32_t lane, Deadline deadline) {
  std::map<std::string, std::string> failed;
  for (;;) {
    auto [provider, why] = FERRY_TRY(choose(*session, failed));
    auto others = failed;
    others.emplace(provider->name(), "");
    const bool last = !choose(*session, others);
    const auto limit = std::chrono::duration_cast<Nanos>(kBetterPath * options.patience);
    auto until = last ? deadline : Deadline::after(std::min(deadline.left() / 2, limit));
    auto core = session->open_lane(lane, *provider, why, until);
    if (core || last || !session->alive()) return core;
    const auto code = core.error().code();
    if (code != Code::kUnavailable && code != Code::kDeadlineExceeded &&
        code != Code::kResourceExhausted)
      return core;
    static LogLimit limit_of_log("channels by the second-best path");
    limit_of_log.warn("no {} to {}, the next best path is used: {}", provider->name(),
                      session->identity().endpoint, core.error().message());
    failed.emplace(provider->name(), core.error().message());
  }
}

Result<Channel> DeviceCore::open_channel(const std::shared_ptr<Session>& session,
                                         const ConnectOptions& given, Deadline deadline) {
  auto count = static_cast<std::uint32_t>(options.lanes_per_peer);
  auto first = given.lane.value_or(session->next_lane(count));
  if (first >= options.max_lanes_per_peer)
    return fail(Code::kInvalidArgument, "lane {} asked for; max_lanes_per_peer is {}", first,
                options.max_lanes_per_peer);
  auto core = FERRY_TRY(open_best_lane(session, first, deadline));
  if (!given.stripe || count == 1) return Channel(std::move(core));
  std::vector<std::shared_ptr<ChannelCore>> others;
  for (std::uint32_t lane = 0; lane < count; ++lane)
    if (lane != first)
      others.push_back(
          FERRY_TRY(session->open_lane(lane, core->provider(), core->why(), deadline)));
  return Channel(std::move(core), std::move(others));
}

Result<Channel> DeviceCore::accept(Deadline deadline) {
  auto there = [this] { return accepted_count_.load() != 0 || closed_.load(); };
  control->loop().wait_until(there, deadline, WaitMode::kSleep);
  LockGuard<Mutex> guard(lock_);
  if (!accepted_.empty()) {
    auto core = std::move(accepted_.front());
    accepted_.pop_front();
    accepted_count_.fetch_sub(1);
    return Channel(std::move(core));
  }
  if (closed_.load()) return fail(Code::kCancelled, "the device was closed");
  return fail(Code::kDeadlineExceeded, "no peer opened a channel to {} in time", endpoint);
}

void DeviceCore::accepted(std::shared_ptr<ChannelCore> core) {
  std::deque<std::shared_ptr<ChannelCore>> dropped;  // ends after the lock is gone
  {
    LockGuard<Mutex> guard(lock_);
    // Nobody will want those whose peer has died meanwhile, and peers cannot fill our memory.
    auto dead = std::stable_partition(accepted_.begin(), accepted_.end(),
                                      [](const auto& waiting) { return waiting->lane().up(); });
    dropped.assign(std::make_move_iterator(dead), std::make_move_iterator(accepted_.end()));
    accepted_.erase(dead, accepted_.end());
    if (closed_.load() || accepted_.size() >= kMaxUnaccepted) {
      dropped.push_back(std::move(core));
    } else {
      accepted_.push_back(std::move(core));
    }
    accepted_count_.store(accepted_.size());
  }
  control->loop().notify();
}

}  // namespace ferry::fabric
