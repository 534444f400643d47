#pragma once

#include "ferry/models/model_def.h"
#include "ferry/models/onnx/file.h"

namespace ferry::models::onnx {

// The classifier that an ONNX file holds, for training: what it puts out first is the logits, or
// their softmax; the loss and the accuracy are added. Weights become variables that begin as they
// are in the file. See docs/onnx.md for what can be read.
//
// kUnimplemented names the node that we cannot do; kInvalidArgument and kDataLoss say what is wrong
// with the file.
Result<Model> model_in(const std::string& path, const ModelOptions& options);
Result<Model> model_of(File file, const std::string& name, const ModelOptions& options);

}  // namespace ferry::models::onnx
