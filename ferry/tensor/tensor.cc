#include "ferry/tensor/tensor.h"

#include <vector>

namespace ferry::tensor {

Result<Tensor> Tensor::over(const Spec& spec, std::span<std::byte> bytes,
                            std::shared_ptr<void> share) {
  auto wanted = FERRY_TRY(spec.bytes());
  if (bytes.size() != wanted)
    return fail(Code::kInvalidArgument, "{} takes {} bytes, not {}", spec.to_string(), wanted,
                bytes.size());
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(spec.type) != 0)
    return fail(Code::kInvalidArgument, "a buffer for {} is not aligned to its elements",
                spec.to_string());
  Tensor tensor;
  tensor.spec_ = spec;
  tensor.bytes_ = bytes;
  tensor.share_ = std::move(share);
  return tensor;
}

Result<Tensor> Tensor::reshape(const Shape& shape) const {
  if (!shape.known() || shape.elements() != spec_.shape.elements())
    return fail(Code::kInvalidArgument, "{} cannot be seen as {}", spec_.to_string(),
                shape.to_string());
  return over({spec_.type, shape}, bytes_, share_);
}

Result<Tensor> Tensor::rows(std::int64_t begin, std::int64_t end) const {
  if (spec_.shape.rank() == 0) return fail(Code::kInvalidArgument, "a scalar has no rows");
  auto count = spec_.shape.dim(0);
  if (begin < 0 || begin > end || end > count)
    return fail(Code::kOutOfRange, "rows {} to {} of {}", begin, end, spec_.to_string());
  auto dims = spec_.shape.dims();
  std::vector<std::int64_t> part(dims.begin(), dims.end());
  part[0] = end - begin;
  auto row = count == 0 ? 0 : bytes_.size() / static_cast<std::size_t>(count);
  auto at = static_cast<std::size_t>(begin) * row;
  return over({spec_.type, FERRY_TRY(Shape::of(part))},
              bytes_.subspan(at, static_cast<std::size_t>(end - begin) * row), share_);
}

}  // namespace ferry::tensor
