#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/graph/replicate.h"

namespace ferry::models {

// What a model is fed with (data.h).
enum class Feeds {
  kImages,     // small pictures of ten classes
  kText,       // pieces of text, whose length varies from step to step
  kSynthetic,  // made up, for models whose real data is too large to be carried around
  kOwn,        // the model says (Model::data)
  kNothing,
};

class Data;
struct DataOptions;

struct ModelInput {
  std::string name;
  tensor::Spec spec;
  std::int64_t below = 0;  // whole numbers: from 0 to this, without it
};

// What is published of a model, and how its computation may be replaced by waiting (emulate.h).
struct ModelFacts {
  double paper_mib = 0;     // of variables, as paper 000 has it in its table 1; 0: it is not there
  int paper_variables = 0;  // how many
  // Of the computation of one step with a batch of up to 32; 0: that of the model `like`, times the
  // floating-point operations of this one over those of that one.
  double seconds = 0;
  std::string like = {};
  bool grows_with_batch = true;  // times batch / 32, beyond a batch of 32

  bool can_be_emulated() const { return seconds > 0 || !like.empty(); }
};

// A model for one worker: its inputs, and the tower that graph::replicate() builds from them. The
// tower's metrics have "accuracy" where there are classes.
struct Model {
  std::string name;
  Feeds feeds = Feeds::kImages;
  std::vector<ModelInput> inputs;
  graph::TowerFunction tower;
  ModelFacts facts = {};
  // What variables begin with, by their names; others as their nodes say.
  std::map<std::string, tensor::Tensor> initial = {};
  // Opens the data of Feeds::kOwn, in each worker's process.
  std::function<Result<std::unique_ptr<Data>>(const DataOptions&)> data = {};
};

struct ModelOptions {
  std::int64_t batch = 32;  // samples of one worker in a step
};

}  // namespace ferry::models
