#include "ferry/ps/update.h"

#include <cstring>

#include "ferry/math/optimize.h"

namespace ferry::ps {

std::uint32_t Update::states() const {
  switch (kind) {
    case UpdateKind::kMomentum:
      return 1;
    case UpdateKind::kAdam:
    case UpdateKind::kFunction:
      return 2;
    default:
      return 0;
  }
}

std::string Update::to_string() const {
  switch (kind) {
    case UpdateKind::kAssign:
      return "assign";
    case UpdateKind::kSum:
      return "sum";
    case UpdateKind::kSgd:
      return fmt::format("sgd(rate {})", rate);
    case UpdateKind::kMomentum:
      return fmt::format("momentum(rate {}, momentum {})", rate, momentum);
    case UpdateKind::kAdam:
      return fmt::format("adam(rate {}, beta1 {}, beta2 {}, epsilon {})", rate, beta1, beta2,
                         epsilon);
    case UpdateKind::kFunction:
      return fmt::format("function '{}'", function);
    case UpdateKind::kNone:
      return "none";
  }
  return "?";
}

void apply_update(const Update& update, const UpdateFunction* function, const UpdateCall& call) {
  const auto n = call.count;
  switch (update.kind) {
    case UpdateKind::kAssign:
      // What is no number arrives as it is, too.
      if (call.gradient.sources.size() == 1 && call.gradient.scale == 1)
        return (void)std::memmove(call.updated, call.gradient.sources[0], n * sizeof(float));
      return math::sum(call.gradient, call.updated, n);
    case UpdateKind::kSum:  // w - (-1) * g is w + g, to the bit
      return math::sgd(call.weights, call.updated, call.gradient, -1.0F, n);
    case UpdateKind::kSgd:
      return math::sgd(call.weights, call.updated, call.gradient, static_cast<float>(update.rate),
                       n);
    case UpdateKind::kMomentum:
      return math::momentum(call.weights, call.updated, call.state[0], call.gradient,
                            {static_cast<float>(update.rate), static_cast<float>(update.momentum)},
                            n);
    case UpdateKind::kAdam:
      return math::adam(
          call.weights, call.updated, call.state[0], call.state[1], call.gradient,
          {update.rate, update.beta1, update.beta2, update.epsilon, static_cast<double>(call.time)},
          n);
    case UpdateKind::kFunction:
      return (*function)(call);
    case UpdateKind::kNone:
      return;
  }
}

}  // namespace ferry::ps
