#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/replicate.h"

namespace ferry::models {

// What kind of data a model is fed with.
enum class Feeds { kImages, kText };

struct ModelInput {
  std::string name;
  tensor::Spec spec;
};

// A model for one worker: its inputs, and the tower that graph::replicate() builds from them. The
// tower's metrics have "accuracy" where there are classes.
struct Model {
  std::string name;
  Feeds feeds = Feeds::kImages;
  std::vector<ModelInput> inputs;
  graph::TowerFunction tower;
};

struct ModelOptions {
  std::int64_t batch = 32;  // samples of one worker in a step
};

// kNotFound for a name that is not in model_names().
Result<Model> make_model(std::string_view name, const ModelOptions& options);
std::vector<std::string> model_names();

}  // namespace ferry::models
