#pragma once

#include <cstdint>
#include <vector>

#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// Spreads blocks over shards, evenly by bytes over all tensors so far.
class BlockPlacement {
 public:
  explicit BlockPlacement(std::size_t shards) : loads_(shards) {}

  // Bytes of a block of this tensor: whole rows where a row fits, at most `most`.
  static std::uint64_t block_bytes(const tensor::Spec& spec, std::uint64_t most);
  // Each block goes to the shard with the fewest bytes; the blocks of a shard become one run.
  std::vector<Run> place(std::uint64_t bytes, std::uint64_t block_bytes);
  // Counts runs that were placed before.
  void count_in(const std::vector<Run>& runs);
  // Runs that were placed are not used, or are dropped: they count no more.
  void take_back(const std::vector<Run>& runs);
  const std::vector<std::uint64_t>& loads() const { return loads_; }

 private:
  std::vector<std::uint64_t> loads_;
};

}  // namespace ferry::ps
