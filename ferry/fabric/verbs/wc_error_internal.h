#pragma once

#include <infiniband/verbs.h>

#include <string_view>

#include "ferry/base/error.h"

namespace ferry::fabric::verbs {

// The name of a failed work completion: what the device says of the operation that failed first.
// `what` names the lane.
Error error_of(ibv_wc_status status, std::uint32_t vendor_code, std::string_view what);

}  // namespace ferry::fabric::verbs
