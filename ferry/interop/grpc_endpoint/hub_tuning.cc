#include "ferry/base/log.h"
#include "ferry/base/spin.h"
#include "ferry/interop/grpc_endpoint/hub_internal.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/tuning_cache.h"

// A path of which nothing is known is measured when it is first used: beside the connection, which
// goes on with the defaults meanwhile, on a channel and on threads of its own.

namespace ferry::interop {

namespace {

// Measuring takes about a third of a second, and longer on a busy host. Nobody waits for it.
constexpr auto kMeasureLimit = std::chrono::seconds(30);

std::string name_of_path(const fabric::Channel& channel) {
  const auto path = mail::TuningPath::of(channel);
  return path.provider + " " + path.host + " " + path.other_host;
}

}  // namespace

// The client's side, once in a process for each path: who fails leaves it to the next process.
void Hub::measure_once(const std::string& endpoint, const Link& link) {
  if (!link.lacks_tuning() || link.channel().peer() == device_->id()) return;
  if (mail::TuningCache::default_folder().empty()) return;
  {
    LockGuard<Mutex> guard(tuning_lock_);
    if (!measured_.insert(name_of_path(link.channel())).second) return;
  }
  aside([this, endpoint] {
    std::uint32_t lane = 0;
    {
      LockGuard<Mutex> guard(dial_lock_);
      lane = lanes_[endpoint]++;
    }
    // Without the lock, so that no connection waits: the two devices know each other already.
    auto channel = open_lane(endpoint, lane, kMeasureToken, Deadline::after(scaled(kMeasureLimit)));
    if (channel) {
      measure_with(*std::move(channel));
    } else {
      logger().info("the path to {} is not measured: {}", endpoint, channel.error().message());
    }
  });
}

// Either side. A failure costs nothing but this channel: the connections have their own.
void Hub::measure_with(fabric::Channel channel) {
  if (measuring_.exchange(true)) return;
  const auto found = mail::find_tuning(*device_, channel, mail::TuningUse::kMeasure, "",
                                       Deadline::after(scaled(kMeasureLimit)));
  measuring_ = false;
  if (!found) {
    logger().info("the path to {} is not measured: {}", channel.peer_endpoint(),
                  found.error().message());
    return;
  }
  if (found->source == mail::TuningSource::kDefault) return;
  const auto path = name_of_path(channel);
  {
    LockGuard<Mutex> guard(grave_lock_);
    for (auto* link : links_)
      if (link->lacks_tuning() && name_of_path(link->channel()) == path) link->retune(*found);
  }
  logger().info("the path to {} is {}: eager up to {} bytes, chunks of {} bytes, {} in flight",
                channel.peer_endpoint(), name_of(found->source), found->tuning.eager_threshold,
                found->tuning.chunk_bytes, found->tuning.chunks_in_flight);
}

}  // namespace ferry::interop
