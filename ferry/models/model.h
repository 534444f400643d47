#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/models/model_def.h"

namespace ferry::models {

// All models by name: the library's own, those of ONNX files, and those that the program adds.

// kNotFound for a name that is not in model_names(). One that ends in ".onnx" is a file's, which is
// read (docs/onnx.md): kNotFound, kDataLoss, kInvalidArgument or kUnimplemented say why it cannot
// be.
Result<Model> make_model(std::string_view name, const ModelOptions& options);
std::vector<std::string> model_names();

using MakeModel = std::function<Result<Model>(const ModelOptions&)>;
// A model of the program's own, under a name that is free: kAlreadyExists if it is not. Before jobs
// begin; thread-safe.
Status register_model(std::string name, MakeModel make);

}  // namespace ferry::models
