#pragma once

#include <memory>
#include <string_view>

#include "ferry/ops/kernel_def.h"

namespace ferry::ops {

// All kernels by the names of their operators. The library's own are there from the start; programs
// add theirs before they run graphs.

// kAlreadyExists for a second kernel of an operator. Thread-safe.
Status register_kernel(std::string_view op, KernelFactory factory);
// kUnimplemented for an operator without a kernel; names the node.
Result<std::unique_ptr<Kernel>> make_kernel(const graph::Node& node);

}  // namespace ferry::ops
