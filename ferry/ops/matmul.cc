#include <algorithm>

#include "ferry/ops/matmul_internal.h"
#include "ferry/ops/onednn_internal.h"
#include "ferry/ops/standard_internal.h"

namespace ferry::ops {
namespace {

Status run_matmul(const Call& call) {
  const auto turn_a = call.attributes().get_or<bool>("transpose_a", false);
  const auto turn_b = call.attributes().get_or<bool>("transpose_b", false);
  const auto& a = call.shape(0);
  const auto& b = call.shape(1);
  const auto& y = call.out_shape();
  const Product product{.m = dim(y, 0), .n = dim(y, 1), .k = dim(a, turn_a ? 0 : 1), .add = false};
  return multiply(product, {call.floats(0), dim(a, 1), turn_a}, {call.floats(1), dim(b, 1), turn_b},
                  FERRY_TRY(call.out_floats()), product.n);
}

}  // namespace

Status multiply(const Product& product, const Matrix& a, const Matrix& b, float* y,
                std::size_t pitch) {
  const auto [m, n, k, add] = product;
  if (m == 0 || n == 0) return {};
  if (k == 0) {
    for (std::size_t row = 0; row < m && !add; ++row) std::fill_n(y + row * pitch, n, 0.0F);
    return {};
  }
  const auto whole = [](std::size_t value) { return static_cast<dnnl_dim_t>(value); };
  const auto status =
      dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', whole(m), whole(n), whole(k), 1,
                 a.values, whole(a.pitch), b.values, whole(b.pitch), add ? 1 : 0, y, whole(pitch));
  if (status != dnnl_success)
    return fail(Code::kInternal, "oneDNN failed with status {} on a product of {} x {} x {}",
                static_cast<int>(status), m, k, n);
  return {};
}

NamedKernels matmul_kernels() { return {{"MatMul", shaped(run_matmul)}}; }

}  // namespace ferry::ops
