#include "ferry/ops/standard_internal.h"

namespace ferry::ops {

std::vector<std::pair<std::string, KernelFactory>> standard_kernels() { return {}; }

}  // namespace ferry::ops
