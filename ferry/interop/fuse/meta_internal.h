#pragma once

#include <string>

#include "ferry/interop/fuse/model_files_internal.h"

namespace ferry::interop {

// What `meta` shows of a tensor, as JSON: name, type, shape, bytes, update and its numbers.
std::string meta_of(const TensorFile& tensor);
// The same of all tensors, with where each begins in `model`.
std::string meta_of(const ModelFiles::Tensors& tensors);

// What was written to the `meta` of a new tensor.
struct Wanted {
  tensor::Spec spec;
  ps::Update update;
};
// kInvalidArgument says what is wrong with it.
Result<Wanted> parse_meta(const std::string& text);

}  // namespace ferry::interop
