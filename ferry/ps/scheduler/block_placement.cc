#include <algorithm>
#include <numeric>

#include "ferry/ps/scheduler/block_placement_internal.h"

namespace ferry::ps {

std::uint64_t BlockPlacement::block_bytes(const tensor::Spec& spec, std::uint64_t most) {
  std::uint64_t row = tensor::size_of(spec.type);
  for (std::size_t dim = 1; dim < spec.shape.rank(); ++dim)
    row *= static_cast<std::uint64_t>(spec.shape.dim(dim));
  // Blocks begin at multiples of a line, so that they can be copied and summed at full speed.
  const auto unit = std::lcm(row, std::uint64_t{64});
  return unit <= most ? most / unit * unit : most;
}

std::vector<Run> BlockPlacement::place(std::uint64_t bytes, std::uint64_t block_bytes) {
  const auto blocks = (bytes + block_bytes - 1) / block_bytes;
  std::vector<std::uint64_t> counts(loads_.size());
  auto loads = loads_;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto least = std::min_element(loads.begin(), loads.end()) - loads.begin();
    const auto at = static_cast<std::size_t>(least);
    ++counts[at];
    loads[at] += std::min(block_bytes, bytes - block * block_bytes);
  }
  std::vector<Run> runs;
  std::uint64_t offset = 0;
  for (std::uint32_t shard = 0; shard < counts.size(); ++shard) {
    if (counts[shard] == 0) continue;
    const auto size = std::min(counts[shard] * block_bytes, bytes - offset);
    runs.push_back({shard, offset, size});
    loads_[shard] += size;
    offset += size;
  }
  return runs;
}

void BlockPlacement::count_in(const std::vector<Run>& runs) {
  for (const auto& run : runs) loads_[run.shard] += run.bytes;
}

void BlockPlacement::take_back(const std::vector<Run>& runs) {
  for (const auto& run : runs) loads_[run.shard] -= run.bytes;
}

}  // namespace ferry::ps
