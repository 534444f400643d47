#include "ferry/base/log.h"
#include "ferry/interop/grpc_endpoint/handshakers_internal.h"
#include "ferry/interop/grpc_endpoint/linked.h"
#include "ferry/mail/tuning.h"

namespace ferry::interop {

namespace {

template <class T>
void read_argument(const grpc_core::ChannelArgs& args, const char* name, std::uint64_t least,
                   std::uint64_t most, std::optional<T>& set) {
  const auto value = args.GetInt(name);
  if (!value.has_value()) return;
  if (*value >= 0 && static_cast<std::uint64_t>(*value) >= least &&
      static_cast<std::uint64_t>(*value) <= most) {
    set = static_cast<T>(*value);
  } else {
    logger().warn("channel argument {}={}: a number from {} to {} is expected; it is not used",
                  name, *value, least, most);
  }
}

}  // namespace

LinkThresholds thresholds_of(const grpc_core::ChannelArgs& args) {
  using Limits = mail::TuningLimits;
  auto set = PluginOptions::get().thresholds;
  read_argument(args, kEagerArgument, 0, Limits::kEager, set.eager_threshold);
  read_argument(args, kCopyArgument, 0, Limits::kCopy, set.copy_up_to);
  read_argument(args, kChunkArgument, Limits::kLeastChunk, Limits::kMostChunk, set.chunk_bytes);
  read_argument(args, kChunksArgument, 1, Limits::kChunks, set.chunks_in_flight);
  return set;
}

}  // namespace ferry::interop
