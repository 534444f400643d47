#pragma once

#include "ferry/models/onnx/file.h"

// Tensors whose elements are known while a file is read.

namespace ferry::models::onnx {

// The elements as f32, or as i64 if they are whole: f16, f32, f64, i32, i64 and truth are read.
// kInvalidArgument if there are more or fewer than the shape says, kUnimplemented for other types,
// and for elements in a file beside it that was not read.
Result<tensor::Tensor> tensor_of(const TensorEntry& entry);

Result<tensor::Tensor> tensor_of_reals(const Dims& dims, std::span<const float> values);
Result<tensor::Tensor> tensor_of_wholes(const Dims& dims, std::span<const std::int64_t> values);

Dims dims_of(const tensor::Shape& shape);
// The largest number there is if it is larger than that.
std::int64_t product_of(std::span<const std::int64_t> dims);

// How the elements of a weight move from the file's order into ours: seen as `view`, transposed to
// `order`, and then called `dims`.
struct Move {
  Dims view;
  Dims order;
  Dims dims;
  friend bool operator==(const Move&, const Move&) = default;
};
// The view and the dimensions have as many elements as the value.
Result<tensor::Tensor> moved(const tensor::Tensor& value, const Move& move);

}  // namespace ferry::models::onnx
