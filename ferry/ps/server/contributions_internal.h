#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferry/ps/server/gradient_sum_internal.h"
#include "ferry/ps/wire/layout_internal.h"

namespace ferry::ps {

// A gradient of one block, where a worker has put it.
struct Source {
  std::uint32_t rank = 0;
  const std::byte* data = nullptr;
};

// Rows of a gradient: keys within the part, and as many rows of values. Both were checked.
struct RowSource {
  std::span<const std::uint64_t> keys;
  const std::byte* values = nullptr;
};

// What workers have pushed of one part in the open step. A gradient stays where its worker has put
// it until the step is applied, or until fold() has added it to the block's sum. Sums are made in
// the order of ranks, so that they are the same whoever came first. A block of which only rows came
// has the sums of these rows alone, until somebody pushes all of it.
//
// One thread at a time. Between calls touched() lists every block that has something.
class Contributions {
 public:
  Contributions(const PartLayout& layout, tensor::ElementType type, std::uint64_t row_bytes)
      : layout_(layout),
        element_bytes_(tensor::size_of(type)),
        row_bytes_(row_bytes),
        adder_(type),
        blocks_(layout.blocks()) {}

  // Notes a gradient of the block. Its bytes stay where they are until they are folded or dropped.
  void add(std::uint32_t block, const Source& source);
  // Whether the worker of that rank has contributed to the block.
  bool has(std::uint32_t block, std::uint32_t rank) const;
  // Adds those up to `rank` to the block's sum: their memory is free then.
  void fold(std::uint32_t block, std::uint32_t rank);
  // Adds rows to the sums at once. All lower ranks have ended the step.
  void fold_rows(const RowSource& rows, std::uint32_t rank);
  // Whether a sum has something of that worker, which cannot be taken out again.
  bool has_folded(std::uint32_t rank) const;
  bool empty() const { return touched_.empty(); }
  // Forgets what is not folded of one worker; all of one block; all.
  void drop(std::uint32_t rank);
  void clear(std::uint32_t block);
  void clear();

  // Blocks with something; a block may be listed twice, if a worker was dropped.
  std::span<const std::uint32_t> touched() const { return touched_; }
  // One of these says what the block has: rows, each of which has a sum; gradients none of which is
  // folded; or one sum of all, for which the rest is folded. Else it has nothing.
  std::span<const std::uint64_t> rows(std::uint32_t block) const { return blocks_[block].rows; }
  const float* row_sum(std::uint64_t row) const {
    return sums_.data() + row * row_bytes_ / element_bytes_;
  }
  std::span<const Source> unfolded(std::uint32_t block) const;
  const float* sum(std::uint32_t block);

 private:
  struct Block {
    std::vector<Source> pending;        // by rank
    std::vector<std::uint32_t> folded;  // ranks that are in the sum
    std::vector<std::uint64_t> rows;    // within the part, as they came; none: the sum is dense
  };
  // Lists the block in touched_, if it has nothing yet: it is about to get something.
  void touch(std::uint32_t block);
  // Somebody pushes all of the block: rows that nobody has pushed are zero from now on.
  void make_dense(std::uint32_t block);
  // Where the sums of the block are, which are made when first needed.
  float* sums_of(std::uint32_t block);

  PartLayout layout_;
  std::uint64_t element_bytes_;
  std::uint64_t row_bytes_;
  GradientSum adder_;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> touched_;
  std::vector<float> sums_;               // of all blocks, made when first needed
  std::vector<std::uint64_t> row_marks_;  // the step_mark_ with which a row was last added up
  std::uint64_t step_mark_ = 1;
};

}  // namespace ferry::ps
