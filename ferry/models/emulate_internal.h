#pragma once

#include <string>
#include <vector>

#include "ferry/models/model.h"

namespace ferry::models {

double operations_of(const graph::Node& node, const graph::Graph& graph);

// What a model does between two uses of new variables.
struct Stage {
  struct Weights {
    std::string name;
    tensor::Spec spec;
  };
  std::vector<Weights> variables;
  double operations = 0;
};
// In the order in which the variables are used. Operations before the first variable are the first
// stage's.
std::vector<Stage> stages_of(const graph::Graph& graph);

// Registers EmulatedLayer [ns, back_ns]: token, variables... -> token, and its gradient, once.
void register_emulation();

}  // namespace ferry::models
