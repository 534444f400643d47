#pragma once

#include <span>

#include "ferry/graph/builder.h"

namespace ferry::graph {

// How gradients change a variable.
struct Optimizer {
  enum class Kind { kSgd, kMomentum, kAdam };
  Kind kind = Kind::kSgd;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;

  static Optimizer sgd() { return {}; }
  static Optimizer with_momentum(double momentum = 0.9) {
    return {.kind = Kind::kMomentum, .momentum = momentum};
  }
  static Optimizer adam(double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8) {
    return {.kind = Kind::kAdam, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon};
  }
};

std::string_view name_of(Optimizer::Kind kind);

// Adds one update of a variable, on the variable's task: the gradients (one of each worker, say)
// are summed from the first to the last and multiplied with `scale`. The optimizer's memory is in
// variables beside it, "name/velocity", "name/m", "name/v" and "name/t", which all updates of the
// variable share. `rate` is a scalar. Returns the variable's new value.
//
// Sparse gradients stay sparse if all are and the optimizer is plain SGD.
Expr apply_gradients(const Optimizer& optimizer, Expr variable, Expr rate,
                     std::span<const Expr> gradients, double scale = 1);

// Both on the variable's task; the new value.
Expr assign(Expr variable, Expr value);
// average = decay * average + (1 - decay) * x, as batch_norm's statistics want it.
Expr update_average(Expr average, Expr x, double decay);

}  // namespace ferry::graph
