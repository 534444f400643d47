#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ferry/ops/shaped_internal.h"

namespace ferry::ops {

// The library's own kernels, with the names of their operators; each of the parts is in a file of
// its own.
NamedKernels standard_kernels();

NamedKernels source_kernels();
NamedKernels cast_kernels();
NamedKernels element_kernels();
NamedKernels reduce_kernels();
NamedKernels shape_kernels();
NamedKernels matmul_kernels();
NamedKernels conv_kernels();
NamedKernels pool_kernels();
NamedKernels norm_kernels();
NamedKernels lrn_kernels();
NamedKernels class_kernels();
NamedKernels row_kernels();
NamedKernels recurrent_kernels();
NamedKernels gru_kernels();
NamedKernels sequence_kernels();
NamedKernels update_kernels();

}  // namespace ferry::ops
