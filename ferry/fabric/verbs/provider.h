#pragma once

#include <memory>

#include "ferry/fabric/provider_internal.h"

namespace ferry::fabric::verbs {

// RDMA through libibverbs: InfiniBand, RoCE, Soft-RoCE. Fails with the reason why this host cannot
// use it (no device, no device file, no active port, memlock too small) and what to do about it.
Result<std::unique_ptr<Provider>> open_verbs_provider(ProviderContext& context);

}  // namespace ferry::fabric::verbs
