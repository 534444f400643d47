#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ps/server/snapshot_internal.h"

namespace ferry::ps {

// What a shard knows of a worker's steps.
struct Member {
  static constexpr std::uint64_t kForEver = ~std::uint64_t{0};
  std::uint64_t ended = 0;
  std::uint64_t since = 0;           // the last step before those in which it counts
  std::uint64_t through = kForEver;  // the last step in which it counts
  // The last step in which whoever had this rank before counts. It is ended, and may be open.
  std::uint64_t former = 0;
};

// A step that is begun anew under a new number.
struct Anew {
  std::uint32_t attempt = 0;  // 0: none is
  std::uint64_t step = 0;
};

// All that a shard is, between two steps: for a server that takes the place of one that is gone.
struct ShardImage {
  struct PartAt {
    std::uint32_t tensor = 0;
    PartImage image;
  };
  std::uint64_t clock = 0;
  std::uint32_t attempt = 0;
  Anew later;
  std::vector<Member> members;
  std::vector<PartAt> parts;  // whose first values are there
};

// Its description: everything but values.
void put(bootstrap::Encoder& out, const ShardImage& image);
Result<ShardImage> get_shard_image(bootstrap::Decoder& in, const JobOptions& job);

// The values of a part, one section after the other.
inline constexpr std::uint32_t kSections = 4;
std::span<std::byte> section_of(PartImage& image, std::uint32_t section);

}  // namespace ferry::ps
