#include "ferry/models/onnx/values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ferry/math/convert.h"
#include "ferry/ops/evaluate.h"

namespace ferry::models::onnx {
namespace {

using tensor::ElementType;
using tensor::Tensor;

// TensorProto.DataType
enum DataType : std::int64_t {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
};

template <class T>
Result<Tensor> made_of(ElementType type, const Dims& dims, std::span<const T> values) {
  const auto shape = FERRY_TRY(tensor::Shape::of(dims));
  if (!shape.known() || static_cast<std::uint64_t>(shape.elements()) != values.size())
    return fail(Code::kInvalidArgument, "{} elements where the shape {} has {}", values.size(),
                shape.to_string(), shape.elements());
  auto made = FERRY_TRY(ops::make_tensor({type, shape}));
  if (!values.empty()) std::memcpy(made.data(), values.data(), values.size_bytes());
  return made;
}

// What lies in the file byte by byte, as T.
template <class T>
Result<std::vector<T>> raw_of(const TensorEntry& entry) {
  if (entry.raw.size() % sizeof(T) != 0)
    return fail(Code::kInvalidArgument, "{} bytes are no whole number of elements",
                entry.raw.size());
  std::vector<T> values(entry.raw.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), entry.raw.data(), entry.raw.size());
  return values;
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values) {
  std::vector<To> all(values.size());
  std::transform(values.begin(), values.end(), all.begin(),
                 [](From value) { return static_cast<To>(value); });
  return all;
}

template <class T>
Result<Dims> wholes_of(const TensorEntry& entry) {
  if (entry.raw.empty()) return entry.ints;
  const auto values = FERRY_TRY(raw_of<T>(entry));
  return converted<std::int64_t>(values);
}

Result<std::vector<float>> halves_of(const TensorEntry& entry) {
  auto bits = FERRY_TRY(raw_of<std::uint16_t>(entry));
  if (entry.raw.empty()) bits = converted<std::uint16_t>(entry.ints);
  std::vector<float> values(bits.size());
  math::f32_from_f16(bits.data(), values.data(), bits.size());
  return values;
}

template <class T>
Result<std::vector<float>> reals_of(const TensorEntry& entry) {
  if (entry.raw.empty()) return entry.floats;
  const auto values = FERRY_TRY(raw_of<T>(entry));
  return converted<float>(values);
}

}  // namespace

Result<Tensor> tensor_of_reals(const Dims& dims, std::span<const float> values) {
  return made_of(ElementType::kF32, dims, values);
}

Result<Tensor> tensor_of_wholes(const Dims& dims, std::span<const std::int64_t> values) {
  return made_of(ElementType::kI64, dims, values);
}

Result<Tensor> tensor_of(const TensorEntry& entry) {
  if (entry.external)
    return fail(Code::kUnimplemented,
                "its elements are in another file, '{}', and the model is not read from a folder: "
                "save it as one file",
                entry.external->location);
  switch (entry.type) {
    case kFloat:
      return tensor_of_reals(entry.dims, FERRY_TRY(reals_of<float>(entry)));
    case kDouble:
      return tensor_of_reals(entry.dims, FERRY_TRY(reals_of<double>(entry)));
    case kFloat16:
      return tensor_of_reals(entry.dims, FERRY_TRY(halves_of(entry)));
    case kInt32:
      return tensor_of_wholes(entry.dims, FERRY_TRY(wholes_of<std::int32_t>(entry)));
    case kInt64:
      return tensor_of_wholes(entry.dims, FERRY_TRY(wholes_of<std::int64_t>(entry)));
    case kBool:
      return tensor_of_wholes(entry.dims, FERRY_TRY(wholes_of<std::uint8_t>(entry)));
    default:
      return fail(Code::kUnimplemented, "elements of ONNX's type {} cannot be read", entry.type);
  }
}

Dims dims_of(const tensor::Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

std::int64_t product_of(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  for (const auto dim : dims)
    if (__builtin_mul_overflow(product, dim, &product))
      return std::numeric_limits<std::int64_t>::max();
  return product;
}

Result<Tensor> moved(const Tensor& value, const Move& move) {
  const auto shape = FERRY_TRY(tensor::Shape::of(move.dims));
  auto result = FERRY_TRY(ops::make_tensor({value.type(), shape}));
  // Steps in the file's order for each dimension of ours.
  const auto rank = move.view.size();
  Dims steps(rank, 1);
  for (std::size_t i = rank; i-- > 1;) steps[i - 1] = steps[i] * move.view[i];
  Dims ours(rank);
  Dims stride(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    ours[i] = move.view[static_cast<std::size_t>(move.order[i])];
    stride[i] = steps[static_cast<std::size_t>(move.order[i])];
  }
  const auto size = tensor::size_of(value.type());
  Dims place(rank);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < result.bytes().size(); to += size) {
    std::memcpy(result.data() + to, value.data() + from * static_cast<std::int64_t>(size), size);
    for (std::size_t i = rank; i-- > 0;) {
      from += stride[i];
      if (++place[i] < ours[i]) break;
      from -= stride[i] * ours[i];
      place[i] = 0;
    }
  }
  return result;
}

}  // namespace ferry::models::onnx
