#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ferry/ps/server/gradient_sum_internal.h"
#include "ferry/ps/server/planes_internal.h"
#include "ferry/ps/server/snapshot_internal.h"
#include "ferry/ps/update.h"

namespace ferry::ps {

// The values of a part, and what its update remembers of them: the state of the optimizer, and the
// weights in f32 where the tensor's type is narrow. Each change publishes a new version of a block.
// Belongs to the shard's thread, as planes() does.
class Weights {
 public:
  // The function is used by UpdateKind::kFunction only, and outlives this.
  Weights(Planes planes, const tensor::Spec& spec, const Update& update,
          const UpdateFunction* function);

  Planes& planes() { return planes_; }
  const Planes& planes() const { return planes_; }
  tensor::ElementType type() const { return type_; }
  std::uint64_t row_bytes() const { return row_bytes_; }
  std::uint64_t elements(std::uint32_t block) const {
    return planes_.layout().bytes_of(block) / tensor::size_of(type_);
  }
  // First values: they are no update.
  void assign(std::uint32_t block, const std::byte* values);
  // The gradient is the sum of `parts` times `scale`.
  void update(std::uint32_t block, std::span<const float* const> parts, float scale);
  // Some rows of one block. `gradient_of` gives the gradient of the row at an index of `rows`, and
  // may use the same memory for all of them.
  template <typename GradientOf>
  void update_rows(std::uint32_t block, std::span<const std::uint64_t> rows, float scale,
                   GradientOf gradient_of) {
    const auto plane = planes_.take_to_edit(block);
    ++updates_[block];
    for (std::size_t each = 0; each < rows.size(); ++each)
      update_row(block, plane, rows[each], gradient_of(each), scale);
    planes_.publish(block, plane);
  }

  // All that has to be kept. What restore() is given has the sizes of empty_image().
  PartImage empty_image() const;
  PartImage image() const;
  void restore(PartImage image);

 private:
  // The index in the part of the block's first element.
  std::uint64_t first_element(std::uint32_t block) const {
    return block * planes_.layout().block_bytes / tensor::size_of(type_);
  }
  // Updates one row, in a plane that is taken and has the newest values.
  void update_row(std::uint32_t block, std::uint32_t plane, std::uint64_t row,
                  const float* gradient, float scale);

  Planes planes_;
  tensor::ElementType type_;
  std::uint64_t row_bytes_;
  Update update_;
  const UpdateFunction* function_;
  std::vector<std::uint64_t> updates_;  // how often each block was updated
  std::vector<float> master_;           // the weights in f32; empty if they are f32
  std::vector<float> states_[2];
};

}  // namespace ferry::ps
