#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/path_tuner_internal.h"
#include "ferry/mail/find_tuning.h"
#include "ferry/mail/tuning_cache.h"

namespace ferry::interop {

bool PathTuner::is_wanted(const Link& link) const {
  return link.lacks_tuning() && link.channel().peer() != device_.device().id() &&
         !mail::TuningCache::default_folder().empty();
}

void PathTuner::measure(fabric::Channel channel) {
  if (measuring_.exchange(true)) return;
  const auto limit = Deadline::after(PluginOptions::get().scaled(kMeasureLimit));
  const auto found =
      mail::find_tuning(device_.device(), channel, mail::TuningUse::kMeasure, "", limit);
  measuring_ = false;
  if (!found) {
    logger().info("the path to {} is not measured: {}", channel.peer_endpoint(),
                  found.error().message());
    return;
  }
  if (found->source == mail::TuningSource::kDefault) return;
  links_.retune(path_of(channel), *found);
  logger().info("the path to {} is {}: eager up to {} bytes, chunks of {} bytes, {} in flight",
                channel.peer_endpoint(), name_of(found->source), found->tuning.eager_threshold,
                found->tuning.chunk_bytes, found->tuning.chunks_in_flight);
}

}  // namespace ferry::interop
