#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ps/server/snapshot_internal.h"
#include "ferry/ps/server/step_clock_internal.h"

namespace ferry::ps {

// All that a shard is, between two steps: for a server that takes the place of one that is gone.
struct ShardImage {
  struct PartAt {
    std::uint32_t tensor = 0;
    PartImage image;
  };
  ClockState step;
  std::vector<PartAt> parts;  // whose first values are there
};

// Its description: everything but values.
void put(bootstrap::Encoder& out, const ShardImage& image);
Result<ShardImage> get_shard_image(bootstrap::Decoder& in, const JobOptions& job);

// The values of a part, one section after the other.
inline constexpr std::uint32_t kSections = 4;
std::span<std::byte> section_of(PartImage& image, std::uint32_t section);

}  // namespace ferry::ps
