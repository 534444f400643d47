#pragma once

#include <cstdint>
#include <vector>

#include "ferry/models/images.h"

namespace ferry::models {

// Which samples each worker sees in each step: every epoch in another order, every sample once in
// it, but for a rest smaller than the batches of one step. Depends on the numbers below and nothing
// else, so that a run can be resumed, or done over. Not thread-safe.
class Batches {
 public:
  struct Options {
    std::int64_t batch = 32;
    std::uint32_t worker = 0;
    std::uint32_t workers = 1;
    std::uint64_t seed = 1;
  };
  // The images stay where they are. kInvalidArgument if there are fewer than one step takes.
  static Result<Batches> open(const Images& images, const Options& options);

  struct Batch {
    tensor::Tensor images;  // f32 [B, H, W, 1], from -0.5 to 0.5
    tensor::Tensor labels;  // i32 [B]
  };
  // Of step n, from 1; valid until the next call.
  Batch of_step(std::uint64_t step);
  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  Batches(const Images& images, const Options& options);
  void shuffle(std::uint64_t epoch);

  const Images& images_;
  const Options options_;
  const std::uint64_t steps_per_epoch_;
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::vector<std::uint32_t> order_;
  std::vector<float> pixels_;
  std::vector<std::int32_t> labels_;
};

}  // namespace ferry::models
