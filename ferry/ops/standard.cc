#include <iterator>

#include "ferry/ops/standard_internal.h"

namespace ferry::ops {

NamedKernels standard_kernels() {
  NamedKernels all;
  for (auto* part : {source_kernels, cast_kernels, element_kernels, reduce_kernels, shape_kernels,
                     matmul_kernels, conv_kernels, pool_kernels, norm_kernels, class_kernels,
                     row_kernels, recurrent_kernels, update_kernels}) {
    auto kernels = part();
    all.insert(all.end(), std::make_move_iterator(kernels.begin()),
               std::make_move_iterator(kernels.end()));
  }
  return all;
}

}  // namespace ferry::ops
