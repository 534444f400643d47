#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ferry/base/error.h"
#include "ferry/math/sum.h"

namespace ferry::ps {

enum class UpdateKind : std::uint8_t {
  kAssign = 1,    // weights = gradient
  kSum = 2,       // weights += gradient
  kSgd = 3,       // rate
  kMomentum = 4,  // rate, momentum
  kAdam = 5,      // rate, beta1, beta2, epsilon
  kFunction = 6,  // what ServerOptions::functions has under `function`
  kNone = 7,      // what is pushed is thrown away: to measure the way to the server
};

// What a server does with a gradient. Plain data.
struct Update {
  UpdateKind kind = UpdateKind::kSum;
  double rate = 0;
  double momentum = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::string function{};  // kFunction

  // Values that are remembered for each weight.
  std::uint32_t states() const;
  std::string to_string() const;
  friend bool operator==(const Update&, const Update&) = default;
};

// One block, or one row, that is updated. `updated` is where `weights` are, or apart from them.
struct UpdateCall {
  const float* weights = nullptr;
  float* updated = nullptr;
  math::Parts gradient;           // stands for their sum: see math::sum()
  std::array<float*, 2> state{};  // as many as Update::states()
  std::uint64_t time = 1;         // how often this block was updated, this time included
  std::size_t count = 0;
};

// Of the user's own; has two values of state for each weight. Called on the thread of the block's
// shard, and by several shards for different blocks at the same time. While it blocks, every worker
// of that shard waits. Must not throw, nor call the server, which waits for its shards.
using UpdateFunction = std::function<void(const UpdateCall&)>;

// Applies the update; `function` is used for kFunction only.
void apply_update(const Update& update, const UpdateFunction* function, const UpdateCall& call);

}  // namespace ferry::ps
